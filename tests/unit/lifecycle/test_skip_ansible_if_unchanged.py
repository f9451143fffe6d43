"""Deploys without changes: the compared inputs, and the notes that nodes confirm."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator import packaged_files, state
from orchestrator.lifecycle import skip_ansible_if_unchanged
from tests import builders

ROLE = packaged_files.directory("ansible") / "roles" / "current_configuration"
SCRIPT = ROLE / "files" / "verify_checksums.sh"


def inventory(**settings: Any) -> dict[str, Any]:
    return builders.inventory(builders.cluster(), **settings)


def test_same_inventory_has_the_same_fingerprint() -> None:
    assert skip_ansible_if_unchanged.fingerprint(inventory()) == skip_ansible_if_unchanged.fingerprint(inventory())


@pytest.mark.parametrize("changes", [{"monitoring": True}, {"trainer_image": "orchestrator-unpacked:2"}])
def test_other_setting_has_another_fingerprint(changes: dict[str, Any]) -> None:
    assert skip_ansible_if_unchanged.fingerprint(inventory()) != skip_ansible_if_unchanged.fingerprint(
        inventory(**changes)
    )


def test_other_password_in_a_file_has_another_fingerprint(tmp_path: Path) -> None:
    secret = tmp_path / "monitoring.json"
    marks = set()
    for password in ("one", "two"):
        secret.write_text(password)
        marks.add(skip_ansible_if_unchanged.fingerprint(inventory(monitoring_secret=str(secret))))
    assert len(marks) == 2


def test_long_text_with_a_slash_is_not_read_as_a_file() -> None:
    reason = f"no image of grafana: {'x' * 300} at https://registry.example.org"
    assert skip_ansible_if_unchanged.fingerprint(inventory(monitoring_grafana_lack=reason))


def test_other_role_has_another_fingerprint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(packaged_files, "directory", lambda name: tmp_path / name)
    role = tmp_path / "ansible" / "roles" / "node.yml"
    role.parent.mkdir(parents=True)
    marks = set()
    for text in ("one", "two"):
        role.write_text(text)
        marks.add(skip_ansible_if_unchanged.fingerprint(inventory()))
    assert len(marks) == 2


def test_unreachable_nodes_are_not_unchanged() -> None:
    state_dir = builders.deployed("demo")
    assert not skip_ansible_if_unchanged.are_nodes_unchanged(state.StateDir(state_dir.path), builders.cluster())


def test_note_has_the_path_that_the_role_writes() -> None:
    defaults = yaml.safe_load((ROLE / "defaults" / "main.yml").read_text())
    assert defaults["current_configuration_record"] == skip_ansible_if_unchanged.NOTE


def is_unchanged(note: Path) -> bool:
    return subprocess.run(["sh", "-c", f"{SCRIPT.read_text()}\nverify_checksums {note}"], check=False).returncode == 0


@pytest.fixture
def note(tmp_path: Path) -> Path:
    promised, written = tmp_path / "promised", tmp_path / "note"
    promised.write_text("as it was left")
    sums = subprocess.run(["sha256sum", str(promised)], check=True, capture_output=True, text=True).stdout
    written.write_text(f"# digest\n{sums}")
    return written


def test_node_with_its_files_is_unchanged(note: Path) -> None:
    assert is_unchanged(note)


def test_node_without_a_note_is_changed(tmp_path: Path) -> None:
    assert not is_unchanged(tmp_path / "none")


def test_changed_file_is_detected(note: Path, tmp_path: Path) -> None:
    (tmp_path / "promised").write_text("as someone left it")
    assert not is_unchanged(note)


def test_stopped_unit_is_detected(note: Path) -> None:
    note.write_text(note.read_text() + "# unit no-such-unit-here.service\n")
    assert not is_unchanged(note)
