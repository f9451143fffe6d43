"""A deploy with ``min_nodes`` on a cloud that has no room for all nodes."""

from collections.abc import Callable, Iterator

import pytest

from tests.e2e.command import Cli
from tests.e2e.sites import Site

Administer = Callable[..., str]
FLAVOR = "e2e-two-fit"


@pytest.fixture
def flavor(administer: Administer) -> Iterator[str]:
    """Create a flavor of which exactly two servers fit on the cloud's hypervisors."""
    shown = administer("hypervisor", "list", "--long", "--format", "value", "--column", "Memory MB")
    room = min(int(line) for line in shown.splitlines())
    administer("flavor", "create", "--ram", str(int(room * 0.6)), "--vcpus", "1", "--disk", "20", FLAVOR)
    yield FLAVOR
    administer("flavor", "delete", FLAVOR)


def test_min_nodes_deploys_without_node_that_cannot_be_created(cli: Cli, site: Site, flavor: str) -> None:
    settings = cli.state / "cluster.yaml"
    usual = settings.read_text()
    lines = [line for line in usual.splitlines() if not line.strip().startswith(("flavor:", "head_flavor:"))]
    settings.write_text("\n".join(lines).replace("openstack:", f"openstack:\n  flavor: {flavor}") + "\n")
    try:
        deployment = cli.json("deploy", "--nodes", "3", "--min-nodes", "2")
        (missing,) = deployment["missing"]  # the cloud decides which of the workers gets no room
        assert sorted([*deployment["cluster"]["nodes"], missing]) == ["e2e-head", "e2e-worker-0", "e2e-worker-1"]
        assert len(cli("hostfile").stdout.splitlines()) == 2
        assert f"missing: {missing}" in cli("status").stdout
        assert len(cli.json("check")["ranks"]) == 2
    finally:
        settings.write_text(usual)
        assert cli.json("teardown")["left"] == []
    assert site.list_resources() == []
