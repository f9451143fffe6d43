"""What providers share whose nodes are whole machines: the trainer comes to them as an image."""

from pathlib import Path
from typing import Any

from orchestrator import build, images, lock, progress, state
from orchestrator.cluster import SHARED
from orchestrator.config import stored
from orchestrator.engine import Engine
from orchestrator.state import Home, Record

IMAGE = "trainer"
WAIT_SECONDS = 3600.0  # for another deploy, which builds the image and packs it


def prepare(record: Record, place: Home) -> None:
    """Build the trainer's image, where its archive is not here. Raises PreflightError, CommandFailed."""
    path = _archive(record)
    if path.exists():
        return
    with lock.waited(path.with_name("lock"), "packs the trainer's image", WAIT_SECONDS, "XDG_CACHE_HOME"):
        if not path.exists():
            _pack(record, place, path)


def _pack(record: Record, place: Home, path: Path) -> None:
    for left in path.parent.glob(".*.tar.zst.*"):  # by a command that was killed
        left.unlink()
    engine, base = Engine(), stored(record.config).local.base_image
    tag = build.ensure(engine, IMAGE, base, place.log("image"), record.gpu.accelerator)
    with progress.step("Packing the trainer's image (once)") as step:
        build.archive(engine, tag, path, lambda done: step.detail(f"{done >> 20} MiB"))


def trainer_digest(record: Record) -> str:
    """Which trainer the nodes must have."""
    return images.digest(stored(record.config).local.base_image, record.gpu.accelerator)


def trainer(record: Record) -> dict[str, Any]:
    """The image and its archive here, as the role that brings it to the nodes wants them."""
    archive = _archive(record)
    return {
        "trainer_image": _tag(record),
        "trainer_archive": str(archive),
        "trainer_parcel": f"{SHARED}/.orchestrator/{archive.name}",
    }


def _tag(record: Record) -> str:
    return images.tag(IMAGE, stored(record.config).local.base_image, record.gpu.accelerator)


def _archive(record: Record) -> Path:
    return state.cache() / "images" / f"{_tag(record).replace(':', '-')}.tar.zst"
