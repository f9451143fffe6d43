"""Check the space on the Docker Engine's disk."""

import shutil

from orchestrator.docker.engine import Engine
from orchestrator.errors import PreflightError

FULL = 64 << 20  # a disk with fewer bytes left counts as full


def require(engine: Engine, needed: int) -> None:
    """Raise PreflightError if fewer than ``needed`` bytes are free."""
    free = _free(engine)
    if free is not None and free < needed:
        raise full(engine, f"{free / 2**30:.1f} GiB free, the images need {needed >> 30}")


def require_not_full(engine: Engine) -> None:
    """Raise PreflightError if the disk is full."""
    free = _free(engine)
    if free is not None and free < FULL:
        raise full(engine, "no space is left for the image build")


def full(engine: Engine, detail: str) -> PreflightError:
    """Return the error of a full disk."""
    hint = "`docker system df` shows what uses the space, `docker system prune` frees what is unused"
    return PreflightError(f"the disk of {engine.data_root} is full: {detail}", hint)


def _free(engine: Engine) -> int | None:
    """Return the free bytes; None if the engine is on another machine."""
    return shutil.disk_usage(engine.data_root).free if engine.data_root.exists() else None
