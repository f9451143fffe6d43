"""One site and one state directory for the whole story."""

import subprocess
from collections.abc import Iterator

import pytest

from tests.e2e import sites
from tests.e2e.command import COMMAND, OURS, Cli
from tests.e2e.sites import Site


@pytest.fixture(scope="session")
def site() -> Site:
    return sites.chosen()


@pytest.fixture(scope="session")
def cli(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    command = Cli(tmp_path_factory.mktemp("state"), patience=site.patience)
    if site.settings:
        (command.state / "cluster.yaml").write_text(site.settings)
    yield command
    for name in OURS:  # whatever the story came to, nothing of it stays
        words = [str(COMMAND), "teardown", "--discard-runs", "--cluster", name]
        subprocess.run(words, env=command.environment, check=False)
