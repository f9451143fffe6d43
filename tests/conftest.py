"""Fixtures of every test: private directories, and one rule for missing tools."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from orchestrator.config import Config, Framework
from orchestrator.docker import context, images
from orchestrator.docker.engine import Engine
from orchestrator.errors import PreflightError
from orchestrator.process import interrupts
from orchestrator.terraform import program

# contract/test_trainer_in_image.py and each test_in_image.py run them inside the images, which have the frameworks.
collect_ignore = ["trainer", "trainer_pytorch", "trainer_engines"]

signal.signal(signal.SIGINT, signal.default_int_handler)  # scripts in the background ignore it

Missing = Callable[[str], NoReturn]


@pytest.fixture(autouse=True)
def own_directories(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set home, state and cache of this test, and return the state directory of its clusters."""
    base = tmp_path_factory.mktemp("own")
    for variable, folder in (("HOME", "home"), ("XDG_STATE_HOME", "state"), ("XDG_CACHE_HOME", "cache")):
        (base / folder).mkdir()
        monkeypatch.setenv(variable, str(base / folder))
    monkeypatch.setenv(interrupts.OWNER, "")  # restored after tests that take a lock, which sets it
    return base / "state" / "orchestrator"


@pytest.fixture(scope="session")
def missing() -> Missing:
    """Return a function for tests whose tool is missing: it skips on a user's machine and fails in CI."""

    def end(reason: str) -> NoReturn:
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)

    return end


@pytest.fixture(scope="session")
def terraform(missing: Missing) -> str:
    """Return the path of the real Terraform or OpenTofu."""
    try:
        return program()
    except PreflightError as error:
        missing(error.message)


@pytest.fixture(scope="session")
def docker_engine(missing: Missing) -> Engine:
    """Return the real Docker Engine."""
    try:
        return Engine()
    except PreflightError as error:
        missing(error.message)


def built(framework: Framework, engine: Engine, missing: Missing) -> str:
    """Return the tag of a framework's node image, built of these sources."""
    tag = context.tag("node", context.variant(Config(framework=framework)))
    name = "" if framework == "tensorflow" else f" {framework}"
    return tag if images.find(engine, tag) else missing(f"image {tag} is not built: python -m tests.images{name}")


@pytest.fixture(scope="session")
def node_image(docker_engine: Engine, missing: Missing) -> str:
    """Return the tag of the node image with TensorFlow."""
    return built("tensorflow", docker_engine, missing)
