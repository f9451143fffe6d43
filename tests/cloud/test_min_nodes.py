"""A deploy with ``min_nodes`` on a cloud that has no room for all nodes, and a run on the nodes that it got."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import Cli
from tests.e2e.sites import Site

Administer = Callable[..., str]
FLAVOR = "e2e-two-fit"
LOGOUT_SECONDS = 10  # logind's UserStopDelaySec: the account's session ends this long after its last connection
SCRIPT = f"""
import time
from multiprocessing.shared_memory import SharedMemory

memory = SharedMemory(create=True, size=8)
time.sleep({3 * LOGOUT_SECONDS})
SharedMemory(memory.name).unlink()
print("shared memory is still there")
"""


@pytest.fixture(scope="module")
def flavor(administer: Administer) -> Iterator[str]:
    """Create a flavor of which exactly two servers fit on the cloud's hypervisors."""
    shown = administer("hypervisor", "list", "--long", "--format", "value", "--column", "Memory MB")
    room = min(int(line) for line in shown.splitlines())
    administer("flavor", "create", "--ram", str(int(room * 0.6)), "--vcpus", "1", "--disk", "20", FLAVOR)
    yield FLAVOR
    administer("flavor", "delete", FLAVOR)


@pytest.fixture(scope="module")
def deployment(cli: Cli, site: Site, flavor: str) -> Iterator[Any]:
    settings = cli.state / "cluster.yaml"
    usual = settings.read_text()
    lines = [line for line in usual.splitlines() if not line.strip().startswith(("flavor:", "head_flavor:"))]
    settings.write_text("\n".join(lines).replace("openstack:", f"openstack:\n  flavor: {flavor}") + "\n")
    try:
        yield cli.json("deploy", "--nodes", "3", "--min-nodes", "2")
    finally:
        settings.write_text(usual)
        assert cli.json("teardown")["left"] == []
        assert site.list_resources() == []


def test_min_nodes_deploys_without_node_that_cannot_be_created(cli: Cli, deployment: Any) -> None:
    (missing,) = deployment["missing"]  # the cloud decides which of the workers gets no room
    assert sorted([*deployment["cluster"]["nodes"], missing]) == ["e2e-head", "e2e-worker-0", "e2e-worker-1"]
    assert len(cli("hostfile").stdout.splitlines()) == 2
    assert f"missing: {missing}" in cli("status").stdout
    assert len(cli.json("check")["ranks"]) == 2


@pytest.mark.usefixtures("deployment")
def test_shared_memory_of_a_run_outlives_the_last_connection(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    run = cli("run", "--np", "1", "--detach", "--", "python", str(tmp_path / "script.py")).stdout.strip()
    time.sleep(4 * LOGOUT_SECONDS * cli.patience)
    assert "shared memory is still there" in cli("logs", run).stdout
