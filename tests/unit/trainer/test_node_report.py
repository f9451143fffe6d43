"""Report of a node, requested from a program like the control side does."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from orchestrator.schema import NodeReport
from orchestrator.trainer.telemetry import node_report
from tests import waiting
from tests.unit.conftest import StandIn, Start


def report_of(address: str, shared: Path, *peers: str) -> NodeReport:
    command = [sys.executable, "-m", "orchestrator.trainer.telemetry.node_report", address, str(shared), *peers]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return NodeReport.model_validate_json(output, strict=True)


def test_report_matches_the_schema(tmp_path: Path) -> None:
    report = report_of("127.0.0.1", tmp_path)
    assert (report.hostname, report.interface, report.unreachable) == (socket.gethostname(), "lo", {})


def test_host_name_of_64_characters_is_reported_as_unresolved(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "a" * 64)
    assert node_report.report("127.0.0.1", tmp_path, [])["resolves"] is False


def test_address_of_another_machine_is_on_no_interface(tmp_path: Path) -> None:
    assert report_of("192.0.2.1", tmp_path).interface is None  # an address reserved for documentation


def test_shared_directory_is_tested_and_measured(tmp_path: Path) -> None:
    report = report_of("127.0.0.1", tmp_path)
    assert report.shared_writable
    assert report.shared_free > 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("shared", ["/proc", "/no/such/directory"])
def test_unwritable_shared_directory_is_reported(shared: str) -> None:
    report = report_of("127.0.0.1", Path(shared))
    assert (report.shared_writable, report.shared_free) == (False, 0)


def test_storage_that_does_not_answer_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As NFS of a head that is down: the node itself answers."""
    monkeypatch.setattr(node_report, "SHARED_SECONDS", 0.1)
    monkeypatch.setattr(node_report, "_writable", lambda _: time.sleep(10))
    report = node_report.report("127.0.0.1", tmp_path, [])
    assert (report["shared_answers"], report["shared_writable"], report["shared_free"]) == (False, False, 0)


def test_peer_that_connects_and_hangs_is_reported(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in("ssh", 'case "$*" in *10.0.0.1\\ true) exec /bin/sleep 10;; esac')
    monkeypatch.setattr(node_report, "PEER_SECONDS", 1.0)
    assert node_report._unreachable(["10.0.0.1", "10.0.0.2"]) == {"10.0.0.1": "no answer for 1 s"}


def test_free_memory_is_at_most_the_machines(tmp_path: Path) -> None:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < report_of("127.0.0.1", tmp_path).memory_available < total


def test_run_on_the_node_is_reported(start: Start, tmp_path: Path) -> None:
    run = f"run-{os.getpid()}"
    child = start("-c", "import time; print('ready', flush=True); time.sleep(60)", ORCHESTRATOR_RUN=run)
    assert waiting.read_line(child) == "ready"
    assert run in report_of("127.0.0.1", tmp_path).runs


def test_peers_refused_by_ssh_are_reported_with_its_message(stand_in: StandIn, tmp_path: Path) -> None:
    stand_in("ssh", 'case "$*" in *10.0.0.1\\ true) exit 0;; *10.0.0.3*) exit 7;; esac; echo refused >&2; exit 255')
    report = report_of("127.0.0.1", tmp_path, "10.0.0.1", "10.0.0.2", "10.0.0.3")
    assert report.unreachable == {"10.0.0.2": "refused", "10.0.0.3": "ssh exit code 7"}


def test_report_is_one_line_of_json(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "orchestrator.trainer.telemetry.node_report", "127.0.0.1", str(tmp_path)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert len(output.splitlines()) == 1
    assert set(json.loads(output)) == set(NodeReport.model_fields)


def test_node_report_imports_little() -> None:
    """All nodes of a cluster run it at once, and nodes may share cores."""
    assert not imported_by("orchestrator.trainer.telemetry.node_report") & {
        "subprocess",
        "tempfile",
        "concurrent",
        "pydantic",
    }


def test_rank_wrapper_imports_no_pydantic() -> None:
    assert "pydantic" not in imported_by("orchestrator.trainer.supervision.rank_wrapper")


def test_helpers_of_the_launcher_import_none_of_horovod() -> None:
    assert "horovod" not in imported_by("orchestrator.trainer.supervision.horovodrun")


def imported_by(module: str) -> set[str]:
    code = f"import sys, {module}; print(*sys.modules)"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    return {name.partition(".")[0] for name in output.split()}


@pytest.mark.parametrize("group", ["/", "/orchestrator.slice/orchestrator-demo.slice/docker-1.scope/"])
def test_cgroup_limit_is_the_memory_of_the_node(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, group: str) -> None:
    files = {"memory.max": "1048576", "memory.current": "4096", "memory.stat": "active_file 0\ninactive_file 0\n"}
    for name, value in files.items():
        file = tmp_path / "cgroup" / group.lstrip("/") / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(value)
    (tmp_path / "first").write_text(f"0::{group}init.scope\n")
    monkeypatch.setattr(node_report, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(node_report, "FIRST_PROCESS_CGROUP", tmp_path / "first")
    report = node_report.report("127.0.0.1", tmp_path, [])
    assert (report["memory"], report["memory_available"]) == (1048576, 1048576 - 4096)
