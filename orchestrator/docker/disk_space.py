"""Check the space on the Docker Engine's disks."""

import shutil
from pathlib import Path

from orchestrator.docker.engine import Engine
from orchestrator.errors import PreflightError

FULL = 64 << 20  # a disk with fewer bytes left counts as full


def require(engine: Engine, needed: int) -> None:
    """Raise PreflightError if fewer than ``needed`` bytes are free."""
    fullest = _fullest(engine)
    if fullest and fullest[0] < needed:
        raise full(engine, f"{fullest[0] / 2**30:.1f} GiB free, the images need {needed >> 30}")


def require_not_full(engine: Engine) -> None:
    """Raise PreflightError if the disk is full."""
    fullest = _fullest(engine)
    if fullest and fullest[0] < FULL:
        raise full(engine, "no space is left for the image build")


def full(engine: Engine, detail: str) -> PreflightError:
    """Return the error of a full disk."""
    hint = "`docker system df` shows what uses the space, `docker system prune` frees what is unused"
    fullest = _fullest(engine)
    return PreflightError(f"the disk of {fullest[1] if fullest else engine.data_root} is full: {detail}", hint)


def _fullest(engine: Engine) -> tuple[int, Path] | None:
    """Return the fewest free bytes and their directory; None if the engine's directories cannot be seen from here."""
    try:
        return min((shutil.disk_usage(directory).free, directory) for directory in engine.image_directories)
    except OSError:  # on another machine, or only for root
        return None
