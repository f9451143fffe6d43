"""A plan that fails, with stand-ins for Docker Engine and Terraform."""

import os
import subprocess
from pathlib import Path

import pytest

from orchestrator import state
from orchestrator.config import Config
from orchestrator.errors import CommandFailed
from orchestrator.lifecycle import plan
from tests.stand_ins import docker_stand_in
from tests.unit.conftest import StandIn

TERRAFORM = """
case $1 in
  version) echo '{"terraform_version": "1.11.4"}' ;;
  *) echo "no provider can be had in $PWD"; exit 1 ;;
esac
"""


@pytest.fixture
def failure(monkeypatch: pytest.MonkeyPatch, stand_in: StandIn) -> CommandFailed:
    """Return the error of a plan for which Terraform has no provider."""
    for name, script in {"docker": "exit 0", "ssh": "exit 0", "terraform": TERRAFORM}.items():
        stand_in(name, script)
    with docker_stand_in.listening({}) as address:
        monkeypatch.setenv("DOCKER_HOST", address)
        with pytest.raises(CommandFailed, match="no provider can be had") as caught:
            plan.plan(Config(name="demo"))
    return caught.value


def test_log_named_by_a_failed_plan_is_readable(failure: CommandFailed) -> None:
    log = state.for_cluster("demo").path / "logs" / "plan.log"
    assert failure.hint == f"whole log: {log}"
    assert "no provider can be had" in log.read_text()


def test_providers_are_not_executed_in_the_temporary_directory(failure: CommandFailed) -> None:
    """Its file system may be mounted with the option noexec; that of the state directory runs deploys, too."""
    directory = Path(" ".join(failure.tail).partition(" in ")[2])
    assert directory.parents[3] == state.root()
    assert [path.name for path in state.root().iterdir()] == ["demo"]


def test_directories_of_killed_plans_are_removed(request: pytest.FixtureRequest) -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    killed, running = (f".plan.{pid}-abcd_123" for pid in (ended.pid, os.getppid()))
    for name in (killed, running):
        (state.root() / name / "provider").mkdir(parents=True)
    request.getfixturevalue("failure")
    assert sorted(path.name for path in state.root().iterdir()) == [running, "demo"]
