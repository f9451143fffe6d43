"""What every test has: directories of its own, and one rule for tools that are not here."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from orchestrator import termination
from orchestrator.config import Config, Framework
from orchestrator.docker import context, images
from orchestrator.docker.engine import Engine
from orchestrator.errors import PreflightError
from orchestrator.terraform import program

# contract/test_trainer_in_image.py and each test_in_image.py run them inside the images, which have the frameworks.
collect_ignore = ["trainer", "trainer_pytorch", "trainer_engines"]

signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background of a script it is ignored

Missing = Callable[[str], NoReturn]


@pytest.fixture(autouse=True)
def own_directories(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Home, state and cache of this test alone; returns the state directory of all its clusters."""
    base = tmp_path_factory.mktemp("own")
    for variable, folder in (("HOME", "home"), ("XDG_STATE_HOME", "state"), ("XDG_CACHE_HOME", "cache")):
        (base / folder).mkdir()
        monkeypatch.setenv(variable, str(base / folder))
    monkeypatch.setenv(termination.OWNER, "")  # a test that takes a lock sets it; this line makes that undone
    return base / "state" / "orchestrator"


@pytest.fixture(scope="session")
def missing() -> Missing:
    """Call it with the reason where a tool is not here: a user's machine skips, CI has promised every tool."""

    def end(reason: str) -> NoReturn:
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)

    return end


@pytest.fixture(scope="session")
def terraform(missing: Missing) -> str:
    """Path of the real Terraform, or of OpenTofu."""
    try:
        return program()
    except PreflightError as error:
        missing(error.message)


@pytest.fixture(scope="session")
def docker_engine(missing: Missing) -> Engine:
    """The real Docker Engine."""
    try:
        return Engine()
    except PreflightError as error:
        missing(error.message)


def built(framework: Framework, engine: Engine, missing: Missing) -> str:
    """Return the tag of a framework's node image, made of the sources here."""
    tag = context.tag("node", context.variant(Config(framework=framework)))
    name = "" if framework == "tensorflow" else f" {framework}"
    return tag if images.find(engine, tag) else missing(f"image {tag} is not built: python -m tests.images{name}")


@pytest.fixture(scope="session")
def node_image(docker_engine: Engine, missing: Missing) -> str:
    """Tag of the node image with TensorFlow."""
    return built("tensorflow", docker_engine, missing)
