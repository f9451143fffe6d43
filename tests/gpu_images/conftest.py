"""The trainer images for NVIDIA GPUs, which are built if they are missing."""

from pathlib import Path

import pytest

from orchestrator.config import Config
from orchestrator.docker import build, context
from orchestrator.docker.engine import Engine
from tests.contract.conftest import in_image

__all__ = ["in_image"]


@pytest.fixture(scope="session", params=["tensorflow", "pytorch"])
def framework(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def node_image(framework: str, docker_engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the tag of the trainer image of ``framework`` for GPUs."""
    variant = context.variant(Config.model_validate({"framework": framework}), "gpu")
    log: Path = tmp_path_factory.mktemp("logs") / "image.log"
    return build.ensure(docker_engine, "trainer", variant, log)
