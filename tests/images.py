"""Build the node image before tests need it, with its progress in the open: ``python -m tests.images``."""

from pathlib import Path
from tempfile import TemporaryDirectory

from orchestrator.config import Local
from orchestrator.docker import build
from orchestrator.docker.engine import Engine

if __name__ == "__main__":
    with TemporaryDirectory() as logs:
        build.ensure(Engine(), "node", Local().base_image, Path(logs) / "image.log")
