"""Build and pack the trainer's image for providers whose nodes are whole machines."""

from pathlib import Path
from typing import Any

from orchestrator import progress, state
from orchestrator.cluster import SHARED
from orchestrator.config import stored
from orchestrator.docker import build, context, image_archive
from orchestrator.docker.context import Variant
from orchestrator.docker.engine import Engine
from orchestrator.state import Record, StateDir, cluster_lock

IMAGE = "trainer"
# The image on nodes lacks /usr and /opt, so it must not replace the built one if this machine is also a node.
UNPACKED = "orchestrator-unpacked"
LEAST_ROOM = {False: 6, True: 16}  # GiB for the unpacked image on a node, without and with GPUs
WAIT_SECONDS = 3600.0  # for another deploy that builds and packs the image


def prepare(record: Record, state_dir: StateDir) -> None:
    """Build and pack the trainer's image if its archive is not on this machine.

    Raises:
        PreflightError: Docker, disk space or the base image is missing.
        CommandFailed: The build failed.
    """
    path = _archive(record)
    if path.exists():
        return
    with cluster_lock.waited(path.with_name("lock"), "packs the trainer's image", WAIT_SECONDS, "XDG_CACHE_HOME"):
        if not path.exists():
            _pack(record, state_dir, path)


def _pack(record: Record, state_dir: StateDir, path: Path) -> None:
    for leftover in path.parent.glob(".*.tar.zst.*"):  # left by a killed command
        leftover.unlink()
    engine = Engine()
    tag = build.ensure(engine, IMAGE, _variant(record), state_dir.log("image"))
    with progress.step("Packing the trainer's image (once)") as step:
        image_archive.write(engine, tag, path, lambda done: step.detail(f"{done >> 20} MiB"))


def trainer_digest(record: Record) -> str:
    """Return the digest of the trainer that the nodes must have."""
    return context.digest(_variant(record))


def trainer(record: Record) -> dict[str, Any]:
    """Return the image and its local archive as variables of the Ansible role that brings it to the nodes."""
    archive = _archive(record)
    return {
        "trainer_image": f"{UNPACKED}:{trainer_digest(record)}",
        "trainer_archive": str(archive),
        "trainer_shared_archive": f"{SHARED}/.orchestrator/{archive.name}",
    }


def _variant(record: Record) -> Variant:
    return context.variant(stored(record.config), record.gpu.accelerator)


def _archive(record: Record) -> Path:
    return state.cache() / "images" / f"{context.tag(IMAGE, _variant(record)).replace(':', '-')}.tar.zst"
