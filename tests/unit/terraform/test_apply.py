"""An interrupted apply, and the next one, with a script in place of Terraform."""

import json
from pathlib import Path

import pytest

from orchestrator import state, terraform
from orchestrator.errors import CommandFailed
from orchestrator.terraform import sources
from tests import builders, waiting
from tests.unit.conftest import StandIn, Start

OUTPUT = json.dumps({"cluster": {"value": builders.output()}})
ANSWER = f"""test "$1" = output && echo '{OUTPUT}'"""
APPLY = """
from orchestrator import state, terraform
terraform.apply(state.for_cluster("demo"), "local", {}, [], lambda name: print(name, flush=True))
"""
# Creates a resource and prints messages for a while; then it writes the resource to its state.
WRITES_ON = """
test "$1" = apply || exit 0
echo "thing.one: Creation complete after 0s"
parent=$PPID
while test -d /proc/$parent; do :; done
number=0
while test $number -lt 5000; do echo "still making things, $number of them"; number=$((number + 1)); done
echo '{"version": 4, "resources": []}' > terraform.tfstate
"""


def test_apply_of_a_killed_command_saves_its_resources(stand_in: StandIn, start: Start) -> None:
    stand_in("terraform", WRITES_ON)
    command = start("-c", APPLY)
    assert waiting.read_line(command) == "thing.one"
    command.kill()
    command.wait()
    written = state.for_cluster("demo").terraform / "local" / terraform.state_file.FILE
    assert waiting.until(lambda: written.exists() and written.read_text())
    assert json.loads(written.read_text()) == {"version": 4, "resources": []}
    assert terraform.recorded(state.for_cluster("demo"), "local").recorded == {}


def commands(script: str, stand_in: StandIn, directory: Path) -> Path:
    """Return the file in which a stand-in records its commands."""
    log = directory / "commands"
    log.touch()
    stand_in("terraform", f'echo "$1" >> {log}\n{script}')
    return log


def test_root_is_initialised_once(stand_in: StandIn, tmp_path: Path) -> None:
    log = commands(f"{ANSWER} || true", stand_in, tmp_path)
    for _ in range(2):
        terraform.apply(state.for_cluster("demo"), "local", {}, [], print)
    assert log.read_text().split() == ["init", "apply", "output", "apply", "output"]


def test_interrupted_initialisation_is_repeated(stand_in: StandIn, tmp_path: Path) -> None:
    commands('test "$1" = init && /bin/mkdir .terraform && exit 1', stand_in, tmp_path)
    with pytest.raises(CommandFailed, match="terraform init"):
        terraform.apply(state.for_cluster("demo"), "local", {}, [], print)
    log = commands(f"{ANSWER} || true", stand_in, tmp_path)
    terraform.apply(state.for_cluster("demo"), "local", {}, [], print)
    assert log.read_text().split() == ["init", "init", "apply", "output"]


def test_newer_root_replaces_the_older_one_and_is_initialised(stand_in: StandIn, tmp_path: Path) -> None:
    log = commands(f"{ANSWER} || true", stand_in, tmp_path)
    terraform.apply(state.for_cluster("demo"), "local", {}, [], print)
    older = state.for_cluster("demo").terraform / "local"
    newest = (older / "main.tf").read_text()
    (older / "main.tf").write_text("# of an older version")
    (older / "former.tf").write_text("# resources that are now in another file")
    (older / ".terraform" / "initialised").write_text("digest of an older version")
    assert not terraform.is_current(state.for_cluster("demo"), "local")
    terraform.apply(state.for_cluster("demo"), "local", {}, [], print)
    assert (older / "main.tf").read_text() == newest
    assert not (older / "former.tf").exists()
    assert terraform.is_current(state.for_cluster("demo"), "local")
    assert log.read_text().split().count("init") == 2


def test_root_of_an_interrupted_upgrade_is_replaced_by_the_older_version(
    stand_in: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands(f"{ANSWER} || true", stand_in, tmp_path)
    state_dir, files = state.for_cluster("demo"), sources._files("local")
    terraform.apply(state_dir, "local", {}, [], print)
    with monkeypatch.context() as upgraded:
        upgraded.setattr(sources, "_files", lambda _: {**files, "local/main.tf": "# of a newer version"})
        commands('test "$1" != init', stand_in, tmp_path)
        with pytest.raises(CommandFailed, match="terraform init"):
            terraform.apply(state_dir, "local", {}, [], print)
    commands(f"{ANSWER} || true", stand_in, tmp_path)
    terraform.apply(state_dir, "local", {}, [], print)
    assert terraform.is_current(state_dir, "local")
