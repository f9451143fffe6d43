"""The state directory: location, writes, refusals, removal."""

import json
import re
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator import state
from orchestrator.errors import ConfigError, StateError
from tests import builders


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_state_directory_follows_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert state.for_cluster("demo").path == tmp_path / "state" / "orchestrator" / "demo"
    assert state.cache() == tmp_path / "cache" / "orchestrator"


@pytest.mark.parametrize("value", [None, "", "relative/directory"])
def test_state_is_in_the_home_directory_without_absolute_xdg(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str | None
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for variable in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable) if value is None else monkeypatch.setenv(variable, value)
    assert state.root() == tmp_path / ".local" / "state" / "orchestrator"
    assert state.cache() == tmp_path / ".cache" / "orchestrator"


@pytest.mark.parametrize("name", ["a${HOME}", "a${no variable}", "$HOME"])
def test_directory_in_whose_path_tools_see_a_variable_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / name))
    with pytest.raises(ConfigError, match=re.escape(f"{tmp_path / name}: Ansible and ssh would replace")) as caught:
        state.root()
    assert caught.value.hint == "set XDG_STATE_HOME to a directory without $ in its path"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "a$ $"))
    assert state.root() == tmp_path / "a$ $" / "orchestrator"


def test_file_is_replaced_whole_with_private_mode(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    state.replace(path, "old and long")
    with path.open() as reader:
        state.replace(path, "new")
        assert reader.read() == "old and long"  # an open file keeps its old content
    assert path.read_text() == "new"
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)
    assert list(path.parent.iterdir()) == [path]


def test_record_is_read_back_unchanged() -> None:
    state_dir = builders.deployed("demo")
    record = state.read(state_dir)
    assert record is not None
    assert record.cluster == builders.cluster()
    assert (record.id, record.config["name"]) == ("1a2b3c4d", "demo")
    assert (mode(state_dir.record), mode(state_dir.path)) == (0o600, 0o700)


def test_two_deployments_have_different_ids() -> None:
    assert state.new_record({}).id != state.new_record({}).id


def test_deployed_clusters_are_listed_by_name() -> None:
    for name in ("zebra", "ant"):
        builders.deployed(name)
    state.for_cluster("only-a-directory").path.mkdir()
    assert state.cluster_names() == ["ant", "zebra"]


def test_undeployed_cluster_is_refused_with_the_deployed_ones() -> None:
    assert state.read(state.for_cluster("demo")) is None
    with pytest.raises(StateError, match="'demo' is not deployed") as caught:
        state.deployed(state.for_cluster("demo"))
    assert caught.value.hint == "`orchestrator deploy --cluster demo` makes one"
    builders.deployed("other")
    with pytest.raises(StateError) as caught:
        state.deployed(state.for_cluster("demo"))
    assert caught.value.hint == "deployed: other; choose with --cluster"


def test_half_deployed_cluster_is_refused_with_the_remedy() -> None:
    state.write(state.for_cluster("demo"), state.new_record({"provider": "local"}))
    with pytest.raises(StateError, match="only half deployed") as caught:
        state.deployed(state.for_cluster("demo"))
    assert caught.value.hint == "`orchestrator deploy --cluster demo` finishes it"


def test_state_of_a_newer_version_is_refused_whatever_its_content() -> None:
    state_dir = state.for_cluster("demo")
    state.replace(state_dir.record, json.dumps({"version": state.VERSION + 1, "unheard": "of"}))
    with pytest.raises(StateError, match="newer orchestrator") as caught:
        state.read(state_dir)
    assert (caught.value.hint, caught.value.exit_code) == ("upgrade orchestrator", 1)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"version": "one"}', '{"version": 1}', "null"])
def test_unreadable_state_is_refused_with_its_path(text: str) -> None:
    state_dir = state.for_cluster("demo")
    state.replace(state_dir.record, text)
    with pytest.raises(StateError, match="cannot be read") as caught:
        state.read(state_dir)
    assert str(state_dir.record) in caught.value.message


@pytest.mark.parametrize(
    "use",
    [
        lambda: state.read(state.for_cluster("demo")),
        lambda: state.write(state.for_cluster("demo"), state.new_record({})),
        lambda: state.for_cluster("demo").log("terraform"),
    ],
)
def test_unusable_state_directory_is_refused_with_the_remedy(own_directories: Path, use: Callable[[], object]) -> None:
    own_directories.touch()  # a file in place of the directory of all clusters
    with pytest.raises(ConfigError, match=f"{own_directories}.*: Not a directory") as caught:
        use()
    assert "XDG_STATE_HOME" in caught.value.hint
    assert caught.value.exit_code == 2


def test_record_without_variables_is_refused() -> None:
    state_dir = builders.deployed()
    record = json.loads(state_dir.record.read_text())
    del record["applied"]  # otherwise a deploy would treat every resource as replaceable
    state_dir.record.write_text(json.dumps(record))
    with pytest.raises(StateError, match="applied: missing: expected the variables"):
        state.read(state_dir)


def test_keys_of_a_later_version_are_no_obstacle() -> None:
    state_dir = builders.deployed("demo")
    state.replace(state_dir.record, json.dumps({**json.loads(state_dir.record.read_text()), "later": True}))
    assert state.read(state_dir) is not None


def test_removed_cluster_keeps_its_runs_and_logs() -> None:
    state_dir = builders.deployed("demo")
    removed = [state_dir.terraform / "local" / "terraform.tfstate", state_dir.ansible / "inventory.json", state_dir.key]
    files = [state_dir.runs / "run-1" / "results.json", state_dir.log("terraform")]
    for path in removed + files:
        state.replace(path, "x")
    state.forget(state_dir)
    assert not any(path.exists() for path in [*removed, state_dir.record])
    assert all(path.exists() for path in files)
    assert state.cluster_names() == []


def test_removing_twice_is_no_error() -> None:
    state_dir = builders.deployed("demo")
    state.forget(state_dir)
    state.forget(state_dir)
    assert state.read(state_dir) is None


def test_logs_of_a_cluster_have_private_mode() -> None:
    log = builders.deployed("demo").log("terraform")
    assert log.name == "terraform.log"
    assert mode(log.parent) == 0o700
