"""One state directory for the whole story."""

import subprocess
from collections.abc import Iterator

import pytest

from tests.e2e.command import COMMAND, OURS, Cli


@pytest.fixture(scope="session")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    command = Cli(tmp_path_factory.mktemp("state"))
    yield command
    for name in OURS:  # whatever the story came to, nothing of it stays
        subprocess.run([str(COMMAND), "teardown", "--cluster", name], env=command.environment, check=False)
