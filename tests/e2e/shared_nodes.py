"""Two local nodes that files of long tests share, since a deploy takes longer than most of their tests."""

from collections.abc import Iterator

import pytest

from tests.e2e.command import Cli

CLUSTER = "e2e-shared"
HEAD, WORKER = f"{CLUSTER}-head", f"{CLUSTER}-worker-0"


@pytest.fixture(scope="session")
def shared_nodes(cli: Cli) -> Iterator[None]:
    cli("deploy", "--nodes", "2", "--jupyter", "--no-monitoring", cluster=CLUSTER)
    yield
    cli("teardown", "--discard-runs", cluster=CLUSTER)
