"""Provide the base image: one that the Docker Engine has, else pulled, else made by mmdebstrap."""

import shutil
import tempfile
from pathlib import Path

from orchestrator import process, progress
from orchestrator.docker import images
from orchestrator.docker.engine import Engine
from orchestrator.errors import PreflightError

# Files that debian:12-slim leaves out, also from packages installed into it later.
SLIM = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "info", "locale", "man")]
# Debian's keys, in its package debian-archive-keyring. On Ubuntu, mmdebstrap finds them only if gpg is installed.
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def provide(engine: Engine, base_image: str, log: Path) -> str:
    """Ensure that the engine has the base image.

    Args:
        engine: Docker Engine that needs it.
        base_image: Name of the image.
        log: Log file of mmdebstrap.

    Returns:
        The name under which the engine has it.

    Raises:
        PreflightError: It is nowhere to be had, and cannot be made here.
        CommandFailed: mmdebstrap failed.
    """
    name = substitute(base_image)
    for local in (base_image, name):
        if images.find(engine, local):
            return local
    with progress.step(f"Pulling {base_image}") as step:
        reason = images.pull(engine, base_image, step.detail)
        if not reason:
            return base_image
    progress.note(reason)
    with progress.step(f"Building a base image with mmdebstrap instead of {base_image}"):
        _bootstrap(engine, base_image, name, log, reason)
    return name


def substitute(base_image: str) -> str:
    """Return the name of the image that mmdebstrap makes in place of ``base_image``."""
    return f"orchestrator-base:{base_image.partition('@')[0].replace(':', '-').replace('/', '-')}"


def _bootstrap(engine: Engine, base_image: str, name: str, log: Path, reason: str) -> None:
    if not base_image.startswith("debian:12"):
        raise PreflightError(
            f"{base_image} cannot be pulled: {reason}; and only debian:12 can be made here", "check the name"
        )
    if not shutil.which("mmdebstrap"):
        raise PreflightError(
            f"{base_image} cannot be pulled: {reason}; and mmdebstrap, which could make it, is not installed",
            f"`sudo apt-get install mmdebstrap`, or make `docker pull {base_image}` work",
        )
    with tempfile.NamedTemporaryFile(suffix=".tar") as archive:
        keys = [f"--keyring={KEYRING}"] if KEYRING.exists() else []
        process.run("make base image", ["mmdebstrap", "--variant=minbase", *SLIM, *keys, "bookworm", archive.name], log)
        with Path(archive.name).open("rb") as file:
            images.load_root_filesystem(engine, file, name)
