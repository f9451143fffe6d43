"""The file with Terraform's newest state: its own, the tool's copy, or its backup."""

import json
from pathlib import Path

import pytest

from orchestrator.terraform import state_file

NODE = {"type": "some_server", "name": "node", "instances": [{"attributes": {"id": "4"}}]}
DAMAGED = [
    *("", '{"version": 4, "resou', "5", "null", "[]", "{}", "[" * 100_000, "\0\0\0\0"),
    *('{"version": 4, "resources": 5}', '{"version": 4, "resources": [5]}', '{"version": 4, "resources": [{}]}'),
    *('{"version": "four"}', '{"version": 4, "resources": [{"type": "a", "name": "b", "instances": {}}]}'),
]


def written(path: Path, serial: int, lineage: str = "one") -> str:
    text = json.dumps({"version": 4, "serial": serial, "lineage": lineage, "resources": [NODE]})
    path.write_text(text)
    return text


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return tmp_path / state_file.FILE


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return tmp_path / "copy"


@pytest.mark.parametrize("damaged", [None, *DAMAGED])
def test_lost_or_damaged_state_is_restored_from_the_copy(own: Path, copy: Path, damaged: str | None) -> None:
    content = written(copy, 7)
    written(own.with_name(state_file.BACKUP), 6)
    if damaged is not None:
        own.write_text(damaged)
    assert state_file.settle(own.parent, copy) == copy
    assert own.read_text() == content
    assert damaged is None or own.with_name("terraform.tfstate.broken").read_text() == damaged


@pytest.mark.parametrize(("serial", "lineage"), [(6, "one"), (8, "another")])
def test_state_older_than_the_copy_or_of_other_lineage_is_replaced(
    own: Path, copy: Path, serial: int, lineage: str
) -> None:
    written(own, serial, lineage)
    content = written(copy, 7)
    assert state_file.settle(own.parent, copy) == copy
    assert own.read_text() == content


@pytest.mark.parametrize("serial", [7, 8])
@pytest.mark.parametrize("damaged", [None, "5"])
def test_state_as_new_as_the_copy_stays(own: Path, copy: Path, serial: int, damaged: str | None) -> None:
    newest = written(own, serial)
    written(copy, 7) if damaged is None else copy.write_text(damaged)
    assert state_file.settle(own.parent, copy) is None
    assert own.read_text() == newest


@pytest.mark.parametrize("damaged", [None, *DAMAGED])
def test_backup_is_used_without_a_copy(own: Path, copy: Path, damaged: str | None) -> None:
    before = written(own.with_name(state_file.BACKUP), 6)
    if damaged is not None:
        own.write_text(damaged)
    assert state_file.settle(own.parent, copy) == own.with_name(state_file.BACKUP)
    assert own.read_text() == before


@pytest.mark.parametrize("damaged", DAMAGED)
def test_damaged_state_without_a_replacement_is_set_aside(own: Path, copy: Path, damaged: str) -> None:
    own.write_text(damaged)
    assert state_file.settle(own.parent, copy) is None
    assert [path.name for path in own.parent.iterdir()] == ["terraform.tfstate.broken"]


def test_copy_follows_the_state_but_not_a_damaged_one(own: Path, copy: Path) -> None:
    newest = written(own, 8)
    state_file.keep(own.parent, copy)
    assert copy.read_text() == newest
    own.write_text("5")
    state_file.keep(own.parent, copy)
    assert copy.read_text() == newest


def test_search_for_the_newest_state_changes_no_file(own: Path, copy: Path) -> None:
    own.write_text("5")
    written(copy, 7)
    newest = state_file.current(own.parent, copy)
    assert newest
    assert newest[0] == copy
    assert own.read_text() == "5"
