"""A deploy killed at three moments (`make test-failures`: at ten): the next one finishes it, or it is removed."""

import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.e2e.command import Cli, left_on_engine

TEN = 10
MOMENTS = (2, 5, 8)  # of ten
DEPLOY = ("deploy", "--nodes", "2", "--no-monitoring")  # half the time; what is left out is Ansible's as the rest is


def share(moment: int) -> float:
    """Of the time that a deploy takes."""
    return 0.9 * (moment + 0.5) / TEN


@pytest.fixture(scope="module")
def deploy_seconds(cli: Cli) -> float:
    """How long a cold deploy takes here, images built."""
    cli(*DEPLOY)
    cli("teardown")
    started = time.monotonic()
    cli(*DEPLOY)
    seconds = time.monotonic() - started
    cli("teardown")
    return seconds


def killed(cli: Cli, seconds: float) -> None:
    """A deploy that is killed after so many seconds; after fewer, where the machine has become quicker meanwhile."""
    with cli.start(*DEPLOY) as deploy:
        try:
            deploy.wait(seconds)
        except subprocess.TimeoutExpired:
            deploy.kill()
    if deploy.returncode == 0:
        cli("teardown")
        killed(cli, seconds / 2)
    else:
        assert deploy.returncode == -signal.SIGKILL


def finished_by_the_next(cli: Cli, seconds: float) -> None:
    killed(cli, seconds)
    assert len(cli.json(*DEPLOY)["cluster"]["nodes"]) == 2
    removed(cli)


def removed(cli: Cli) -> None:
    assert cli.json("teardown")["left"] == []
    assert left_on_engine() == []
    assert _working_for(cli.state) == []


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_deploy_killed_at_any_moment_is_finished_by_the_next(cli: Cli, deploy_seconds: float, moment: int) -> None:
    finished_by_the_next(cli, deploy_seconds * share(moment))


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_deploy_killed_at_any_moment_is_removed_by_teardown(cli: Cli, deploy_seconds: float, moment: int) -> None:
    killed(cli, deploy_seconds * share(moment))
    removed(cli)


def _working_for(state: Path) -> list[str]:
    """Programs that a command on this state directory left running."""
    pids = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("ORCHESTRATOR_STATE", "").startswith(str(state)):
                pids.append(f"{process.pid} {' '.join(process.cmdline())}")
        except psutil.Error:
            continue
    return pids
