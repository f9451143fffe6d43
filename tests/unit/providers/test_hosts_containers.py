"""Containers of other people, which end when a deploy restarts Docker on a host with GPUs."""

import os
import subprocess
from pathlib import Path

import pytest

from orchestrator.providers import hosts
from orchestrator.providers.hosts import container_checks
from tests.unit.providers.test_hosts_preflight import config, host

RUNC = '{"runc":{"path":"runc"}}'
NVIDIA = '{"nvidia":{"path":"nvidia-container-runtime"},"runc":{"path":"runc"}}'


def surveyed(root: Path, answer: str) -> list[str]:
    """Run survey.sh on a machine with an NVIDIA GPU whose Docker answers. Return its lines about containers."""
    device = root / "devices" / "0000:01:00.0"
    device.mkdir(parents=True)
    (device / "vendor").write_text("0x10de\n")
    (device / "class").write_text("0x030000\n")
    (root / "answer").write_text(answer)
    sudo = root / "sudo"
    sudo.write_text(f"#!/bin/sh\nif [ $2 = docker ]; then cat {root}/answer; fi\n")
    sudo.chmod(0o755)
    script = Path(hosts.__file__).with_name("survey.sh").read_text().replace("/sys/bus/pci/devices", f"{root}/devices")
    environment = {**os.environ, "PATH": f"{root}:{os.environ['PATH']}"}
    ran = subprocess.run(["sh", "-c", script], env=environment, check=True, capture_output=True, text=True)
    assert "survey gpus 1" in ran.stdout
    return [line for line in ran.stdout.splitlines() if line.startswith("survey containers")]


@pytest.mark.parametrize(
    ("answer", "lines"),
    [
        (f"{RUNC} false 3", ["survey containers 3"]),
        (f"{RUNC} true 3", []),
        (f"{NVIDIA} false 3", []),
        (f"{RUNC} false 0", ["survey containers 0"]),
    ],
)
def test_survey_counts_containers_that_a_restart_of_docker_ends(tmp_path: Path, answer: str, lines: list[str]) -> None:
    assert surveyed(tmp_path, answer) == lines


def test_note_names_the_host_and_how_to_keep_its_containers() -> None:
    [note] = container_checks.notes([host(containers=3), host("demo-worker-0")], config())
    assert note.startswith("note: lab@10.0.0.10: the deploy restarts Docker, which ends 3 running containers:")
    assert '`"live-restore": true` in /etc/docker/daemon.json' in note


def test_deploy_that_leaves_docker_alone_has_no_note() -> None:
    assert list(container_checks.notes([host(containers=3)], config(trainer="installed"))) == []
    without_driver = config().model_copy(update={"gpu": config().gpu.model_copy(update={"driver": "none"})})
    assert list(container_checks.notes([host(containers=3)], without_driver)) == []
