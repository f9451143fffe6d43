"""Deploys killed at three moments (`make test-failures`: ten) are completed by the next deploy or by a teardown."""

import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.e2e.command import Cli, resources_on_engine

TEN = 10
MOMENTS = (2, 5, 8)  # of ten
DEPLOY = ("deploy", "--nodes", "2", "--no-monitoring")  # takes half the time; monitoring is configured alike


def share(moment: int) -> float:
    """Return which part of a deploy's time has passed at a moment."""
    return 0.9 * (moment + 0.5) / TEN


@pytest.fixture(scope="module")
def deploy_seconds(cli: Cli) -> float:
    """Return how many seconds a cold deploy takes after images were built."""
    cli(*DEPLOY)
    cli("teardown")
    started = time.monotonic()
    cli(*DEPLOY)
    seconds = time.monotonic() - started
    cli("teardown")
    return seconds


def kill_deploy(cli: Cli, seconds: float) -> None:
    """Kill a deploy after ``seconds``, or earlier if it completed in less."""
    with cli.start(*DEPLOY) as deploy:
        try:
            deploy.wait(seconds)
        except subprocess.TimeoutExpired:
            deploy.kill()
    if deploy.returncode == 0:
        cli("teardown")
        kill_deploy(cli, seconds / 2)
    else:
        assert deploy.returncode == -signal.SIGKILL


def require_next_deploy_completes(cli: Cli, seconds: float) -> None:
    kill_deploy(cli, seconds)
    assert len(cli.json(*DEPLOY)["cluster"]["nodes"]) == 2
    require_teardown_removes_all(cli)


def require_teardown_removes_all(cli: Cli) -> None:
    assert cli.json("teardown")["left"] == []
    assert resources_on_engine() == []
    assert _leftover_processes(cli.state) == []


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_deploy_is_completed_by_next_deploy(cli: Cli, deploy_seconds: float, moment: int) -> None:
    require_next_deploy_completes(cli, deploy_seconds * share(moment))


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_deploy_is_removed_by_teardown(cli: Cli, deploy_seconds: float, moment: int) -> None:
    kill_deploy(cli, deploy_seconds * share(moment))
    require_teardown_removes_all(cli)


def _leftover_processes(state: Path) -> list[str]:
    """List programs that a command with this state directory left running."""
    pids = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("ORCHESTRATOR_STATE", "").startswith(str(state)):
                pids.append(f"{process.pid} {' '.join(process.cmdline())}")
        except psutil.Error:
            continue
    return pids
