"""A deploy killed at ten moments: whatever was half made is finished by the next one, or removed."""

import signal
import time
from pathlib import Path

import psutil
import pytest

from tests.e2e.command import Cli, left_on_engine

MOMENTS = range(10)
DEPLOY = ("deploy", "--nodes", "2", "--no-monitoring")  # half the time; what is left out is Ansible's as the rest is


def share(moment: int) -> float:
    """Of the time that a deploy takes."""
    return 0.9 * (moment + 0.5) / len(MOMENTS)


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


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_deploy_killed_at_any_moment_is_finished_by_the_next(cli: Cli, deploy_seconds: float, moment: int) -> None:
    with cli.start(*DEPLOY) as deploy:
        time.sleep(deploy_seconds * share(moment))
        deploy.send_signal(signal.SIGKILL)
        ends = (0, -signal.SIGKILL) if moment == MOMENTS[-1] else (-signal.SIGKILL,)  # it may be quicker
        assert deploy.wait(60) in ends, "the deploy ended before it could be killed"
        made = cli.json(*DEPLOY)
        assert len(made["cluster"]["nodes"]) == 2
        assert cli.json("teardown")["left"] == []
    assert left_on_engine() == []
    assert _working_for(cli.state) == []


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_deploy_killed_at_any_moment_is_removed_by_teardown(cli: Cli, deploy_seconds: float, moment: int) -> None:
    with cli.start(*DEPLOY) as deploy:
        time.sleep(deploy_seconds * share(moment))
        deploy.send_signal(signal.SIGKILL)
        deploy.wait(60)
        assert cli.json("teardown")["left"] == []
    assert left_on_engine() == []
    assert _working_for(cli.state) == []


def _working_for(state: Path) -> list[str]:
    """Programs that a command on this state directory left running."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("ORCHESTRATOR_STATE", "").startswith(str(state)):
                found.append(f"{process.pid} {' '.join(process.cmdline())}")
        except psutil.Error:
            continue
    return found
