"""Deploys without changes: the compared inputs, and the notes that nodes confirm."""

import shlex
import subprocess
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml

from orchestrator import packaged_files, state
from orchestrator.lifecycle import skip_ansible_if_unchanged
from tests import builders

ROLE = packaged_files.directory("ansible") / "roles" / "current_configuration"
SCRIPT = ROLE / "files" / "verify_checksums.sh"
RECORD = ROLE / "templates" / "record_checksums.sh.j2"


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
    """Record a file, a link to it, a link to nothing and a file that does not exist, as the role does."""
    written, files = tmp_path / "note", [tmp_path / name for name in ("promised", "link", "dangling", "never-made")]
    files[0].write_text("as it was left")
    files[1].symlink_to(files[0])
    files[2].symlink_to(tmp_path / "nothing")
    templates = jinja2.Environment(undefined=jinja2.StrictUndefined)  # noqa: S701
    templates.filters["quote"] = shlex.quote
    script = templates.from_string(RECORD.read_text()).render(
        current_configuration_record=str(written),
        current_configuration_intended_digest="digest",
        current_configuration_units=["no-such-unit-here.service"],
        current_configuration_files=list(map(str, files)),
    )
    subprocess.run(["sh", "-c", script], check=True)
    return written


def test_node_with_its_files_is_unchanged(note: Path) -> None:
    assert is_unchanged(note)


def test_node_without_a_note_is_changed(tmp_path: Path) -> None:
    assert not is_unchanged(tmp_path / "none")


def test_changed_file_is_detected(note: Path, tmp_path: Path) -> None:
    (tmp_path / "promised").write_text("as someone left it")
    assert not is_unchanged(note)


@pytest.mark.parametrize("target", [None, "another"])
def test_link_without_its_program_is_detected(note: Path, tmp_path: Path, target: str | None) -> None:
    (tmp_path / "another").write_text("another program")
    (tmp_path / "link").unlink()
    if target:
        (tmp_path / "link").symlink_to(tmp_path / target)
    assert not is_unchanged(note)


def test_every_program_of_the_container_is_recorded() -> None:
    recorded, container = (
        yaml.safe_load((ROLE.parent / role / "defaults" / "main.yml").read_text())
        for role in ("current_configuration", "trainer_container")
    )
    assert set(container["trainer_container_programs"]) <= set(recorded["current_configuration_files"])


def test_stopped_unit_is_detected(note: Path) -> None:
    note.write_text(note.read_text() + "# unit no-such-unit-here.service\n")
    assert not is_unchanged(note)
