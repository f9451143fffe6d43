"""The site and the state directory of the story, shared by all its tests."""

import subprocess
from collections.abc import Iterator

import pytest

from tests.e2e import sites
from tests.e2e.command import CLUSTERS, COMMAND, Cli
from tests.e2e.sites import Site


@pytest.fixture(scope="session")
def site() -> Site:
    return sites.select_site()


@pytest.fixture(scope="session")
def cli(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    command = Cli(tmp_path_factory.mktemp("state"), patience=site.patience)
    if site.settings:
        (command.state / "cluster.yaml").write_text(site.settings)
    yield command
    words = [str(COMMAND), "teardown", "--discard-runs", "--cluster"]
    failed = [  # remove every cluster, also after a failed test
        name for name in CLUSTERS if subprocess.run([*words, name], env=command.environment, check=False).returncode
    ]
    assert not failed, f"not removed: {failed}"
