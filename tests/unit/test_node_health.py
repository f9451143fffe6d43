"""Evaluation of the nodes' reports."""

from typing import Any

import pytest

from orchestrator import node_health as health_checks
from orchestrator.errors import ConfigError, NodesFailed, StateError
from orchestrator.node_health import Check, Health
from orchestrator.schema import NodeReport
from tests import builders


def wrong(**changes: Any) -> list[tuple[str, str]]:
    """Return names and details of the checks that fail on a node with these values in its report."""
    judged = health_checks.judge(builders.node_report(**changes), builders.cluster(), builders.DIGEST)
    return [(check.name, check.detail) for check in judged if not check.ok]


def health(**reports: NodeReport) -> Health:
    """Return the health of nodes by name; an underscore stands for the hyphen."""
    named = {name.replace("_", "-"): report for name, report in reports.items()}
    cluster = builders.cluster()
    return Health(
        named, {name: health_checks.judge(report, cluster, builders.DIGEST) for name, report in named.items()}
    )


def test_healthy_node_passes_every_check() -> None:
    assert wrong() == []
    assert len(health_checks.judge(builders.node_report(), builders.cluster(), builders.DIGEST)) == 7


@pytest.mark.parametrize(
    ("changes", "name", "detail"),
    [
        ({"interface": None}, "address", "private address is on no interface"),
        ({"resolves": False}, "name", "its own name demo-head does not resolve: add it to /etc/hosts"),
        ({"digest": None}, "trainer", "trainer None instead of 0123456789ab: `orchestrator deploy --cluster demo`"),
        ({"digest": "ffff"}, "trainer", "trainer ffff instead of"),
        ({"shared_writable": False}, "shared", "/shared cannot be written"),
        ({"shared_answers": False, "shared_writable": False, "shared_free": 0}, "shared", "/shared does not answer"),
        (
            {"shared_free": 1 << 29},
            "space",
            "only 0.5 GiB free in /shared: remove old runs and data by `orchestrator ssh --cluster demo`",
        ),
        ({"memory_available": 100 << 20}, "memory", "only 100 MiB of memory free"),
        ({"unreachable": {"10.0.0.11": "refused"}}, "peers", "no ssh from the head to demo-worker-0: refused"),
    ],
)
def test_single_fault_fails_one_check_with_the_remedy(changes: dict[str, Any], name: str, detail: str) -> None:
    failed = wrong(**changes)
    assert [check for check, _ in failed] == [name]
    assert detail in failed[0][1]


def test_exact_minimum_is_enough() -> None:
    assert wrong(shared_free=1 << 30, memory_available=400 << 20) == []


def test_lost_peer_does_not_count_against_the_head() -> None:
    report = builders.node_report(unreachable={"10.0.0.11": "timed out"})
    judged = health_checks.judge(report, builders.cluster(), builders.DIGEST, gone={"10.0.0.11"})
    assert all(check.ok for check in judged)


def test_cluster_with_a_failing_node_is_refused_with_all_reasons() -> None:
    checked = health(demo_head=builders.node_report(), demo_worker_0=builders.node_report(resolves=False, digest="old"))
    with pytest.raises(NodesFailed) as caught:
        health_checks.require_healthy(checked, builders.cluster())
    assert list(caught.value.reasons) == ["demo-worker-0"]
    assert "does not resolve" in caught.value.reasons["demo-worker-0"]
    assert "trainer old" in caught.value.reasons["demo-worker-0"]


def test_unreachable_node_fails() -> None:
    checked = Health({}, {"demo-head": [Check("ssh", False, "ssh: timed out")]})
    with pytest.raises(NodesFailed, match="demo-head: ssh: timed out"):
        health_checks.require_healthy(checked, builders.cluster())


def test_healthy_cluster_may_start_a_run() -> None:
    checked = health(demo_head=builders.node_report(), demo_worker_0=builders.node_report())
    health_checks.require_healthy(checked, builders.cluster())
    health_checks.require_idle(checked, builders.cluster())
    assert checked.failed == {}


def test_busy_cluster_is_refused_with_the_command_that_stops_it() -> None:
    checked = health(demo_head=builders.node_report(), demo_worker_0=builders.node_report(runs=["resnet20-mnist-1"]))
    with pytest.raises(StateError, match="resnet20-mnist-1 is using the cluster") as caught:
        health_checks.require_idle(checked, builders.cluster())
    assert "orchestrator stop resnet20-mnist-1" in caught.value.hint


def test_common_interface_of_all_nodes_is_used() -> None:
    checked = health(demo_head=builders.node_report(), demo_worker_0=builders.node_report())
    assert health_checks.common_interface(checked, None, ["demo-head", "demo-worker-0"]) == "eth0"


def test_interfaces_of_different_names_are_refused() -> None:
    checked = health(demo_head=builders.node_report(), demo_worker_0=builders.node_report(interface="ens3"))
    with pytest.raises(StateError, match="demo-head: eth0, demo-worker-0: ens3") as caught:
        health_checks.common_interface(checked, None, ["demo-head", "demo-worker-0"])
    assert "launch.network_interface" in caught.value.hint


def test_requested_interface_is_used_if_every_node_has_it() -> None:
    both = ["eth0", "ib0"]
    checked = health(
        demo_head=builders.node_report(interfaces=both), demo_worker_0=builders.node_report(interfaces=both)
    )
    assert health_checks.common_interface(checked, "ib0", ["demo-head", "demo-worker-0"]) == "ib0"


def test_requested_interface_missing_on_a_node_is_refused() -> None:
    checked = health(demo_head=builders.node_report(interfaces=["eth0", "ib0"]), demo_worker_0=builders.node_report())
    with pytest.raises(ConfigError) as caught:
        health_checks.common_interface(checked, "ib0", ["demo-head", "demo-worker-0"])
    assert caught.value.problems == ["launch.network_interface: ib0: demo-worker-0 has only lo, eth0"]


def test_only_interfaces_of_nodes_in_use_must_agree() -> None:
    checked = health(demo_head=builders.node_report(), demo_worker_0=builders.node_report(interface="ens3"))
    assert health_checks.common_interface(checked, None, ["demo-head"]) == "eth0"
