"""The script of the role trainer_container that unpacks the trainer image; docker, zstd and tar are stand-ins."""

import json
import sys
from pathlib import Path

import pytest

from orchestrator import packaged_files, state
from orchestrator.ansible import runner
from orchestrator.errors import NodesFailed
from tests import builders

DEFAULTS = packaged_files.directory("ansible") / "roles" / "trainer_container" / "defaults" / "main.yml"
PROGRAMS = {
    "docker": "exit 1",
    "zstd": "true",
    "tar": 'for file in $(seq 9000); do echo "tar: ./usr/f$file: Cannot write: $REASON" >&2; done; exit 2',
}


def reason(directory: Path, monkeypatch: pytest.MonkeyPatch, of_tar: str) -> str:
    """Return the reason of a deploy that ends because tar fails."""
    for name, text in PROGRAMS.items():
        (directory / name).write_text(f"#!/bin/sh\n{text.replace('$REASON', of_tar)}\n")
        (directory / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")
    unpack = {
        "name": "Unpack",
        "ansible.builtin.shell": "{{ trainer_container_unpack }}",
        "args": {"executable": "/bin/bash"},
        "vars": {"trainer_container_lock": f"{directory}/lock", "trainer_container_root": f"{directory}/trainer"},
    }
    play = {"hosts": "demo-head", "gather_facts": False, "vars_files": [str(DEFAULTS)], "tasks": [unpack]}
    (directory / "play.yml").write_text(json.dumps([play]))
    inventory = builders.inventory(builders.cluster(), trainer_image="image:1", trainer_shared_archive="/x.zst")
    inventory["all"]["vars"] |= {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    with pytest.raises(NodesFailed) as caught:
        runner._run(state.for_cluster("demo"), str(directory / "play.yml"), inventory, lambda task: None, "")
    return caught.value.reasons["demo-head"]


def test_full_disk_is_named_with_three_of_its_files_and_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = reason(tmp_path, monkeypatch, "No space left on device")
    assert text.startswith("Unpack: tar: ./usr/f1: Cannot write: No space left on device tar: ./usr/f2: ")
    assert text.count("Cannot write") == 3
    assert "G disk is full: on OpenStack set `openstack.volume_size`, or choose" in text
    assert text.endswith(f"on a host free space in {tmp_path}/trainer")


def test_other_failure_of_tar_does_not_blame_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = reason(tmp_path, monkeypatch, "Input/output error")
    assert text.count("Cannot write: Input/output error") == 3
    assert "disk is full" not in text
    assert not list((tmp_path / "trainer").iterdir())
