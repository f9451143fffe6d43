"""Targets of Prometheus before a deploy with fewer nodes."""

import json
import os
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from orchestrator.ansible.inventory import targets
from orchestrator.cluster import Cluster
from orchestrator.config import Config
from orchestrator.lifecycle import prometheus_targets
from orchestrator.state import Record, StateDir
from tests import builders
from tests.stand_ins import ssh_stand_in


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file of targets of a head on which `sudo` needs no password."""
    sudo = tmp_path / "bin" / "sudo"
    sudo.parent.mkdir()
    sudo.write_text('#!/bin/sh\nexec "$@"\n')
    sudo.chmod(0o755)
    monkeypatch.setenv("PATH", f"{sudo.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(prometheus_targets, "TARGETS", str(tmp_path / "targets.json"))
    return tmp_path / "targets.json"


def deployed(port: int, host_key: str, nodes: int) -> tuple[StateDir, Cluster]:
    """Write the state of a cluster whose head answers on ``port``."""
    state_dir, alone = ssh_stand_in.deployed(port, host_key)
    cluster = builders.cluster(nodes)
    return state_dir, cluster.model_copy(update={"nodes": {**cluster.nodes, **alone.nodes}})


def record(nodes: int, cluster: Cluster | None, monitoring: bool = True, **variables: Any) -> Record:
    config = Config(name="demo", nodes=nodes).model_dump(mode="json")
    config["monitoring"]["enabled"] = monitoring
    keys = builders.host_keys(cluster) if cluster else {}
    return Record(id="1a2b3c4d", config=config, cluster=cluster, host_keys=keys, variables=variables)


def deploy(file: Path, nodes: int, monitoring: bool = True, **variables: Any) -> list[str]:
    """Deploy a cluster of four nodes again, until nodes are removed; return the nodes that Prometheus still has."""
    with ssh_stand_in.listening(ssh_stand_in.honest) as (port, host_key):
        state_dir, cluster = deployed(port, host_key, nodes=4)
        file.write_text(json.dumps(targets(cluster)))
        before = record(4, cluster, monitoring)
        prometheus_targets.remove_leaving_nodes(state_dir, before, record(nodes, cluster, **variables))
    return list(dict.fromkeys(target["labels"]["node"] for target in json.loads(file.read_text())))


def test_removed_nodes_are_no_targets_any_more(file: Path) -> None:
    assert deploy(file, nodes=2) == ["demo-head", "demo-worker-0"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert sorted(path.name for path in file.parent.iterdir()) == ["bin", "targets.json"]


@pytest.mark.parametrize(("nodes", "monitoring"), [(4, True), (6, True), (2, False)])
def test_targets_stay_without_removed_nodes_or_monitoring(file: Path, nodes: int, monitoring: bool) -> None:
    assert len(deploy(file, nodes, monitoring)) == 4


def test_removed_host_is_known_by_its_id(file: Path) -> None:
    machines = [{"id": "id-0"}, {"id": "id-2"}, {"id": "id-3"}]
    assert deploy(file, nodes=3, hosts={"machines": machines}) == ["demo-head", "demo-worker-1", "demo-worker-2"]


def test_head_without_prometheus_yet_is_no_error(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ssh_stand_in.listening(ssh_stand_in.honest) as (port, host_key):
        state_dir, cluster = deployed(port, host_key, nodes=2)
        prometheus_targets.remove_leaving_nodes(state_dir, record(2, cluster), record(1, cluster))
    assert (file.exists(), capsys.readouterr().err) == (False, "")


def test_silent_head_does_not_stop_a_deploy(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    state_dir, cluster = deployed(port, "ssh-ed25519 AAAA", nodes=2)
    prometheus_targets.remove_leaving_nodes(state_dir, record(2, cluster), record(1, cluster))
    assert "Prometheus may raise the alert NodeDown for demo-worker-0: the head does not" in capsys.readouterr().err
