"""The cluster of this package, removed after its last test: other tests require that nothing is left on the engine."""

from collections.abc import Iterator

import pytest

from tests.e2e.command import Cli
from tests.long.shared_nodes import CLUSTER


@pytest.fixture(scope="package", autouse=True)
def shared_nodes(cli: Cli) -> Iterator[None]:
    cli("deploy", "--nodes", "2", "--jupyter", "--no-monitoring", cluster=CLUSTER)
    yield
    cli("teardown", "--discard-runs", cluster=CLUSTER)
