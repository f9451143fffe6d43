"""The node image with PyTorch, and a command for clusters of it."""

from collections.abc import Iterator

import pytest

from orchestrator.docker.engine import Engine
from tests.conftest import Missing, built
from tests.contract.conftest import in_image
from tests.e2e.command import Cli

__all__ = ["in_image"]
CLUSTER = "e2e-pytorch"
HEAD = f"{CLUSTER}-head"


@pytest.fixture(scope="session")
def node_image(docker_engine: Engine, missing: Missing) -> str:
    """Return the tag of the node image with PyTorch."""
    return built("pytorch", docker_engine, missing)


@pytest.fixture(scope="module")
def cli(node_image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    command = Cli(tmp_path_factory.mktemp("state"))
    yield command
    command("teardown", "--discard-runs", cluster=CLUSTER)
