"""Hosts that cannot be restored: messages, and the local files that are removed anyway."""

import socket
from pathlib import Path

import pytest

from orchestrator import state
from orchestrator.ansible import runner
from orchestrator.errors import NodesFailed
from orchestrator.providers import hosts
from orchestrator.providers.hosts import adoption
from orchestrator.providers.hosts.adoption import HostSet, Machine
from orchestrator.providers.hosts.login import Login
from orchestrator.state import Record
from tests import builders
from tests.unit.conftest import StandIn

MACHINES = [
    Machine(name=name, role=role, login=Login(address=address), id=f"id-of-{address}", private_address=address)
    for name, role, address in (("demo-head", "head", "10.0.0.10"), ("demo-worker-0", "worker", "10.0.0.11"))
]
GIVEN = HostSet(machines=MACHINES, storage="mounted", trainer="installed", uid=700, gid=700)


def test_hosts_that_cannot_be_restored_are_named_with_reasons() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        inventory = builders.inventory(builders.cluster())
        for host in inventory["all"]["hosts"].values():
            host |= {"ansible_host": "127.0.0.1", "ansible_port": unused.getsockname()[1]}
        with pytest.raises(NodesFailed) as caught:
            runner.remove(state.for_cluster("demo"), inventory, lambda task: None)
    assert list(caught.value.reasons) == ["demo-head", "demo-worker-0"]
    assert "`orchestrator teardown --cluster demo` tries again" in caught.value.hint


def test_unreachable_hosts_keep_their_files_and_are_named(
    stand_in: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in("ssh", "echo no, never >&2; exit 1")
    state_dir = state.for_cluster("demo")
    adoption.release(state_dir, "1a2b3c4d", GIVEN, dict(zip(MACHINES, (True, False), strict=True)), lambda line: None)
    messages = capsys.readouterr().err
    assert "removing the configuration: their configuration stays: demo-head" in messages
    assert "demo-head still has what the deploy installed: no, never" in messages
    assert "demo-worker-0 still has what the deploy installed: it does not answer" in messages
    assert not list(Path(state_dir.path).rglob("id_ed25519")), "the key of a removal is deleted with it"


def test_teardown_reports_unreachable_hosts_as_left(stand_in: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    stand_in("ssh", "exit 255")
    deployed = Record(id="1a2b3c4d", config={}, variables={"hosts": GIVEN.model_dump(mode="json")})
    hosts.destroy(state.for_cluster("demo"), deployed, lambda line: None)
    assert [(str(resource), resource.usable) for resource in hosts.list_resources(deployed)] == [
        ("host 10.0.0.10 (demo-head)", False),
        ("host 10.0.0.11 (demo-worker-0)", False),
    ]
    assert capsys.readouterr().err.count("it does not answer") == 2
