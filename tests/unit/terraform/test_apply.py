"""An apply that is cut short, and the next one: Terraform's part is played by a script."""

import json
from pathlib import Path

import pytest

from orchestrator import state, terraform
from orchestrator.errors import CommandFailed
from tests import builders, waiting
from tests.unit.conftest import StandIn, Start

OUTPUT = json.dumps({"cluster": {"value": builders.output()}})
ANSWER = f"""test "$1" = output && echo '{OUTPUT}'"""
APPLY = """
from orchestrator import state, terraform
terraform.apply(state.for_cluster("demo"), "local", {}, [], lambda name: print(name, flush=True))
"""
# Makes something, and while it goes on saying so it is left alone; then it writes down what it made.
WRITES_ON = """
test "$1" = apply || exit 0
echo "thing.one: Creation complete after 0s"
parent=$PPID
while test -d /proc/$parent; do :; done
number=0
while test $number -lt 5000; do echo "still making things, $number of them"; number=$((number + 1)); done
echo '{"version": 4, "resources": []}' > terraform.tfstate
"""


def test_an_apply_whose_command_is_killed_writes_down_what_it_made(stand_in: StandIn, start: Start) -> None:
    stand_in("terraform", WRITES_ON)
    command = start("-c", APPLY)
    assert waiting.line(command) == "thing.one"
    command.kill()
    command.wait()
    written = state.for_cluster("demo").terraform / "local" / terraform.state_file.FILE
    assert waiting.until(lambda: written.exists() and written.read_text())
    assert json.loads(written.read_text()) == {"version": 4, "resources": []}
    assert terraform.recorded(state.for_cluster("demo"), "local").recorded == {}


def commands(script: str, stand_in: StandIn, directory: Path) -> Path:
    """A stand-in that notes its commands in the file it returns."""
    noted = directory / "commands"
    noted.touch()
    stand_in("terraform", f'echo "$1" >> {noted}\n{script}')
    return noted


def test_a_root_is_initialised_once(stand_in: StandIn, tmp_path: Path) -> None:
    noted = commands(f"{ANSWER} || true", stand_in, tmp_path)
    for _ in range(2):
        terraform.apply(state.for_cluster("demo"), "local", {}, [], print)
    assert noted.read_text().split() == ["init", "apply", "output", "apply", "output"]


def test_a_root_whose_initialisation_was_cut_short_is_initialised_again(stand_in: StandIn, tmp_path: Path) -> None:
    commands('test "$1" = init && /bin/mkdir .terraform && exit 1', stand_in, tmp_path)
    with pytest.raises(CommandFailed, match="terraform init"):
        terraform.apply(state.for_cluster("demo"), "local", {}, [], print)
    noted = commands(f"{ANSWER} || true", stand_in, tmp_path)
    terraform.apply(state.for_cluster("demo"), "local", {}, [], print)
    assert noted.read_text().split() == ["init", "init", "apply", "output"]


def test_a_newer_root_replaces_the_older_one_and_is_initialised(stand_in: StandIn, tmp_path: Path) -> None:
    noted = commands(f"{ANSWER} || true", stand_in, tmp_path)
    terraform.apply(state.for_cluster("demo"), "local", {}, [], print)
    older = state.for_cluster("demo").terraform / "local"
    newest = (older / "main.tf").read_text()
    (older / "main.tf").write_text("# of an older version")
    (older / ".terraform" / "initialised").write_text("digest of an older version")
    terraform.apply(state.for_cluster("demo"), "local", {}, [], print)
    assert (older / "main.tf").read_text() == newest
    assert noted.read_text().split().count("init") == 2
