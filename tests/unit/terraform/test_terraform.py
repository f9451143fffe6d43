"""Terraform: missing, too old, and the content of its state (by stand-ins; tests/contract has the real one)."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from orchestrator import state, terraform
from orchestrator.errors import PreflightError
from tests.unit.conftest import StandIn

ASK = """
from orchestrator import terraform
from orchestrator.errors import PreflightError
try:
    print(terraform.program())
except PreflightError as error:
    print(error.message, error.exit_code, error.hint, sep="\\n")
"""


def says(version: str) -> str:
    return f"""echo '{{"terraform_version": "{version}"}}'"""


def ask_elsewhere(directory: Path, path: Path) -> list[str]:
    """Return the answer of a Python without Terraform in its directory, with this PATH."""
    directory.mkdir()
    (directory / "python").symlink_to(sys.executable)
    environment = {**os.environ, "PATH": str(path), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [str(directory / "python"), "-c", ASK]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()


def test_missing_terraform_is_reported_with_the_installation(tmp_path: Path) -> None:
    message, exit_code, hint = ask_elsewhere(tmp_path / "bin", path=tmp_path)
    assert message == "neither terraform nor tofu is on the PATH"
    assert exit_code == "2"
    assert "developer.hashicorp.com" in hint


def test_opentofu_is_used_without_terraform(tmp_path: Path, stand_in: StandIn) -> None:
    tofu = stand_in("tofu", says("1.8.0"))
    assert ask_elsewhere(tmp_path / "bin", path=tofu.parent) == [str(tofu)]


def test_terraform_next_to_python_is_found(tmp_path: Path, stand_in: StandIn) -> None:
    program = stand_in("terraform", says("1.8.0"))
    assert ask_elsewhere(tmp_path / "bin", path=tmp_path / "empty")[0].startswith("neither")
    (tmp_path / "bin" / "terraform").symlink_to(program)
    command = [str(tmp_path / "bin" / "python"), "-c", ASK]
    environment = {**os.environ, "PATH": "", "PYTHONPATH": os.pathsep.join(sys.path)}
    output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert output.strip() == str(tmp_path / "bin" / "terraform")


@pytest.mark.parametrize("version", ["1.4.9", "0.15.5", "1.4.0-rc1"])
def test_too_old_terraform_is_refused_with_both_versions(stand_in: StandIn, version: str) -> None:
    stand_in("terraform", says(version))
    with pytest.raises(PreflightError, match=f"is version {version}, 1.5 is needed") as caught:
        terraform.check_version()
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("version", ["1.5.0", "1.11.4", "1.12.0-beta1", "2.0.0"])
def test_new_enough_terraform_is_accepted(stand_in: StandIn, version: str) -> None:
    program = stand_in("terraform", says(version))
    terraform.check_version()
    assert terraform.program() == str(program)


@pytest.mark.parametrize(
    "script", ["echo 'segmentation fault' >&2; exit 139", "echo Terraform v1.11.4", "echo '{}'", "echo '[]'"]
)
def test_terraform_without_a_version_is_refused_with_its_path(stand_in: StandIn, script: str) -> None:
    program = stand_in("terraform", script)
    with pytest.raises(PreflightError, match=f"{program} does not print its version") as caught:
        terraform.check_version()
    assert "install 1.5 or newer" in caught.value.hint


def test_variables_that_change_commands_are_hidden_from_terraform(
    monkeypatch: pytest.MonkeyPatch, stand_in: StandIn
) -> None:
    for name in ("TF_CLI_ARGS", "TF_WORKSPACE", "TF_DATA_DIR", "TF_VAR_nodes", "TF_LOG", "TF_CLI_CONFIG_FILE"):
        monkeypatch.setenv(name, "set")
    foreign = "$TF_CLI_ARGS$TF_WORKSPACE$TF_DATA_DIR$TF_VAR_nodes$TF_LOG"
    stand_in("terraform", f'test "$TF_CLI_CONFIG_FILE,{foreign}" = "set," && {says("1.11.4")}')
    terraform.check_version()


def test_warnings_before_terraforms_json_are_ignored(stand_in: StandIn) -> None:
    """The real one prints them on standard error, for instance for a missing CLI configuration file."""
    stand_in("terraform", f"echo 'Warning: no configuration file' >&2; {says('1.11.4')}")
    terraform.check_version()


def resource(kind: str, name: str, attributes: dict[str, Any], index: str | None = None) -> dict[str, Any]:
    instance = {"attributes": attributes} | ({"index_key": index} if index else {})
    return {"type": kind, "name": name, "instances": [instance]}


def write_state(resources: list[dict[str, Any]], name: str = terraform.state_file.FILE) -> Path:
    path = state.for_cluster("demo").terraform / "local" / name
    state.replace(path, json.dumps({"version": 4, "resources": resources}))
    return path


NETWORK = resource("terraform_data", "network", {"id": "1", "input": {"value": {"name": "demo-network"}}})


def test_recorded_resources_are_listed_by_address() -> None:
    write_state(
        [
            NETWORK,
            resource("terraform_data", "node", {"id": "2", "input": {"value": {"name": "demo-head"}}}, "demo-head"),
            resource("terraform_data", "limits", {"id": "3", "input": None}, "demo-head"),
            resource("some_server", "node", {"id": "4", "name": "demo-worker-0"}),
            {**resource("some_image", "of_nodes", {"id": "5"}), "mode": "data"},
        ]
    )
    assert terraform.recorded(state.for_cluster("demo"), "local").recorded == {
        "terraform_data.network": "demo-network",
        'terraform_data.node["demo-head"]': "demo-head",
        "some_server.node": "4",
    }


def test_resources_removed_from_the_state_are_not_listed() -> None:
    tainted = resource("some_server", "node", {"id": "4", "name": "demo-worker-0"})
    tainted["instances"][0]["status"] = "tainted"
    write_state([NETWORK, tainted])
    assert terraform.recorded(state.for_cluster("demo"), "local").recorded == {"terraform_data.network": "demo-network"}


@pytest.mark.parametrize("before", [None, "", "{"])
def test_unreadable_state_records_and_destroys_nothing(stand_in: StandIn, before: str | None) -> None:
    stand_in("terraform", "exit 1")
    path = write_state([])
    path.write_text("")
    if before is not None:
        path.with_name(terraform.state_file.BACKUP).write_text(before)
    assert terraform.recorded(state.for_cluster("demo"), "local").recorded == {}
    terraform.destroy(state.for_cluster("demo"), "local", print)
    assert not path.exists()


def test_nothing_is_recorded_before_the_first_apply() -> None:
    assert terraform.recorded(state.for_cluster("demo"), "local").recorded == {}


def test_nothing_is_destroyed_before_the_first_apply(stand_in: StandIn) -> None:
    stand_in("terraform", "exit 1")
    terraform.destroy(state.for_cluster("demo"), "local", print)
    assert not state.for_cluster("demo").terraform.exists()
