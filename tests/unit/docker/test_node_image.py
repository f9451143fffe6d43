"""The script that makes a node image of a trainer image, run with recorded programs."""

import os
import subprocess
from pathlib import Path

import pytest

from orchestrator import packaged_files


@pytest.fixture
def calls(tmp_path: Path) -> list[list[str]]:
    """Return the programs that the script called, with their arguments."""
    for name in ("apt-get", "install", "rm", "systemctl", "useradd"):
        (tmp_path / name).write_text(f'#!/bin/sh\necho "{name} $*" >> {tmp_path}/calls\n')
        (tmp_path / name).chmod(0o755)
    text = (packaged_files.directory("docker") / "node.sh").read_text()
    for written in ("/etc/sudoers.d/orchestrator", "/usr/lib/systemd/system/service.d/container.conf"):
        text = text.replace(f"> {written}", f"> {tmp_path / Path(written).name}")
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    subprocess.run(["sh", "-c", text], env=environment, check=True, capture_output=True)
    return [line.split() for line in (tmp_path / "calls").read_text().splitlines()]


def test_node_of_an_image_with_another_python_has_that_of_debian(calls: list[list[str]]) -> None:
    """Ansible runs /usr/bin/python3, which images such as python:3.12-slim lack."""
    [installed] = [call for call in calls if call[:2] == ["apt-get", "install"]]
    assert "python3" in installed


def test_account_takes_any_free_number(calls: list[list[str]]) -> None:
    """Ubuntu's images since 24.04 have an account with the number 1000."""
    [added] = [call for call in calls if call[0] == "useradd"]
    assert added[-1] == "orchestrator"
    assert "--uid" not in added
