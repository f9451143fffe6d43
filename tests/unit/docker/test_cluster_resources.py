"""Containers, networks and volumes with the project's labels, and networks of others."""

from ipaddress import IPv4Network

import pytest

from orchestrator.docker import cluster_resources
from orchestrator.docker.cluster_resources import Holding, Network
from tests.stand_ins import docker_stand_in
from tests.unit.conftest import Connect


def test_engine_without_labelled_resources_owns_nothing(engine: Connect) -> None:
    assert cluster_resources.owned(engine()) == []


def test_every_labelled_resource_is_found(engine: Connect) -> None:
    labels = {"orchestrator.cluster": "demo", "orchestrator.id": "1a2b"}
    containers = [
        {"Id": "c1", "Names": ["/demo-head"], "Labels": labels, "State": "running"},
        {"Id": "c2", "Names": ["/demo-worker-0"], "Labels": labels, "State": "exited"},
    ]
    docker = engine(
        {
            "/containers/json": (200, [containers]),
            "/networks": (200, [[{"Id": "n1", "Name": "demo-network", "Labels": labels}]]),
            "/volumes": (200, [{"Volumes": [{"Name": "demo-shared", "Labels": {"orchestrator.cluster": "demo"}}]}]),
        }
    )
    assert cluster_resources.owned(docker) == [
        Holding("container", "demo-head", "c1", "demo", "1a2b", running=True),
        Holding("container", "demo-worker-0", "c2", "demo", "1a2b", running=False),
        Holding("network", "demo-network", "n1", "demo", "1a2b"),
        Holding("volume", "demo-shared", "demo-shared", "demo", ""),
    ]


def test_ipv4_networks_have_an_owner_and_others_are_ignored(engine: Connect) -> None:
    configs = [[{"Subnet": "10.201.0.0/24"}], [{"Subnet": "fd00::/64"}, {"Subnet": "172.17.0.0/16"}], None]
    labels = [{"orchestrator.id": "1a2b"}, {}, None]
    networks = [
        {"Id": str(number), "Name": f"net-{number}", "Labels": labels[number], "IPAM": {"Config": configs[number]}}
        for number in range(3)
    ]
    assert cluster_resources.networks(engine({"/networks": (200, [networks])})) == [
        Network("net-0", "1a2b", IPv4Network("10.201.0.0/24")),
        Network("net-1", "", IPv4Network("172.17.0.0/16")),
    ]


@pytest.mark.parametrize(
    ("head", "usable"), [("2026-11-23T20:00:00Z", True), ("2026-11-23T21:00:00.12Z", False), (None, False)]
)
def test_restarted_head_makes_grafana_unusable(engine: Connect, head: str | None, usable: bool) -> None:
    """Grafana listens in the head's former network namespace."""
    labels = {"orchestrator.cluster": "demo", "orchestrator.id": "1"}
    running = {"Labels": labels, "State": "running"}
    listed = [
        {"Id": "h", "Names": ["/demo-head"], **running},
        {"Id": "g", "Names": ["/demo-grafana"], "HostConfig": {"NetworkMode": "container:h"}, **running},
    ]
    started: docker_stand_in.Answers = {
        "/containers/g/json": (200, [{"State": {"StartedAt": "2026-11-23T21:00:00.1Z"}}])
    }
    not_found = (404, [{"message": "no such container"}])
    started["/containers/h/json"] = (200, [{"State": {"StartedAt": head}}]) if head else not_found
    owned = cluster_resources.owned(engine({"/containers/json": (200, [listed]), **started}))
    assert {holding.name: holding.running for holding in owned} == {"demo-head": True, "demo-grafana": usable}
