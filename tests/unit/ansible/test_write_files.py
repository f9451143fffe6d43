"""The script of the role node that writes files and starts units, run with paths and programs of a simulated node."""

import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from jinja2 import Environment

from orchestrator import packaged_files

SCRIPT = packaged_files.directory("ansible") / "roles" / "node" / "templates" / "write_files.sh.j2"
HOOK, EXPORTER = "trainer-shutdown-checkpoint", "trainer-exporter"
UNITS = [{"name": f"{unit}.service", "path": f"/etc/systemd/system/{unit}.service"} for unit in (HOOK, EXPORTER)]
SSHD = {"name": "sshd_config", "path": "/etc/ssh/sshd_config.d/60-orchestrator.conf"}
PROGRAMS = {
    "systemctl": '[ "$1 $2" != "is-active --quiet" ] || exit 3\necho "$*" >> "$CALLS"\n[ "$*" != "$FAILS" ]',
    "chown": ":",
    "stat": 'echo "$(/usr/bin/stat -c %a "$3") root"',
    "install": 'echo "install $*" >> "$CALLS"\nfor last; do :; done\nmkdir -p "$last"',
    "id": "echo 100",
}


class Node:
    """A node that ``directory`` simulates."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.calls = directory, directory / "calls"
        (directory / "bin").mkdir()
        (directory / "run").mkdir()
        for name, text in PROGRAMS.items():
            (directory / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
            (directory / "bin" / name).chmod(0o755)

    def deploy(self, content: str, fails: str = "") -> list[str]:
        """Write files of this content; return the calls of programs. ``fails`` is a call of systemctl that fails."""

        def lookup(_: str, name: str) -> str:
            return f"{name} {content}"

        self.calls.write_text("")
        environment = Environment(trim_blocks=True)  # noqa: S701
        environment.filters["quote"] = shlex.quote
        variables: dict[str, Any] = {"node_files": [SSHD, *UNITS], "node_units": [HOOK, EXPORTER], "lookup": lookup}
        variables |= {"ansible_user": "root", "node_is_head": False, "node_exporters_alone": False, "groups": {}}
        text = environment.from_string(SCRIPT.read_text()).render(variables)
        for path in ("/etc/", "/run/", "/var/lib/"):
            text = text.replace(f" {path}", f" {self.directory}{path}").replace(f"={path}", f"={self.directory}{path}")
        path = f"{self.directory / 'bin'}:{os.environ['PATH']}"
        programs = {"PATH": path, "CALLS": str(self.calls), "FAILS": fails}
        done = subprocess.run(["sh", "-c", text], env={**os.environ, **programs}, capture_output=True, check=False)
        assert (done.returncode == 0) == (not fails), done.stderr
        return self.calls.read_text().splitlines()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_unchanged_files_restart_nothing(node: Node) -> None:
    node.deploy("1")
    calls = node.deploy("1")
    assert f"start {EXPORTER}" in calls
    assert not [call for call in calls if call.split()[0] in ("restart", "reload-or-restart", "daemon-reload")]


def test_deploy_restarts_what_a_failed_one_wrote_for(node: Node) -> None:
    node.deploy("1")
    failed = node.deploy("2", fails=f"restart {EXPORTER}")
    assert "reload-or-restart ssh" not in failed
    calls = node.deploy("2")
    assert {"daemon-reload", f"restart {EXPORTER}", "reload-or-restart ssh"} <= set(calls)


def test_changed_shutdown_hook_stops_no_training_run(node: Node) -> None:
    """Its ExecStop requests the end of all training runs on the node."""
    node.deploy("1")
    calls = node.deploy("2")
    assert {"daemon-reload", f"start {HOOK}"} <= set(calls)
    assert f"restart {HOOK}" not in calls


def test_directories_get_the_primary_group_of_the_account(node: Node) -> None:
    """An account of a directory service may have no group of its own name."""
    assert f"install -d -m 755 -o root -g 100 {node.directory}/var/lib/orchestrator/data" in node.deploy("1")
