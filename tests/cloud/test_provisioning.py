"""What only a cloud can prove before a node is configured: quotas, look-alikes, and deploys that are killed."""

import json
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.e2e.command import Cli
from tests.e2e.sites import Site

Administer = Callable[..., str]
MOMENTS = (0.1, 0.3, 0.5, 0.7, 0.9)
REACHED = "Waiting for ssh: done"


@pytest.fixture
def project() -> str:
    shown = subprocess.run(
        ["openstack", "token", "issue", "--format", "json"], capture_output=True, text=True, check=True
    )
    return str(json.loads(shown.stdout)["project_id"])


@contextmanager
def quota(administer: Administer, project: str, **limits: int) -> Iterator[None]:
    """The project's quota lowered, and put back."""
    before = json.loads(administer("quota", "show", "--format", "json", project))
    usual = {row["Resource"]: row["Limit"] for row in before} if isinstance(before, list) else before
    try:
        administer("quota", "set", *(f"--{key}={value}" for key, value in limits.items()), project)
        yield
    finally:
        administer("quota", "set", *(f"--{key}={usual[key]}" for key in limits), project)


def until(cli: Cli, line: str, seconds: float = 0.0, number: signal.Signals = signal.SIGINT) -> list[str]:
    """What a deploy says up to ``line``; so many ``seconds`` later it is sent the signal."""
    output = []
    with cli.start("deploy", "--nodes", "2") as deploy:
        assert deploy.stdout
        for text in deploy.stdout:
            output.append(text)
            if line in text:
                break
        else:
            pytest.fail("".join(output))
        time.sleep(seconds)
        deploy.send_signal(number)
        output += deploy.stdout
    return output


@pytest.fixture(scope="module")
def apply_seconds(cli: Cli) -> Iterator[float]:
    """How long it takes to provision two nodes here."""
    started = time.monotonic()
    until(cli, "Provisioning 2 nodes: done")
    yield time.monotonic() - started
    cli("teardown")


def test_a_plan_says_what_would_be_made_and_makes_nothing(cli: Cli, site: Site) -> None:
    changes = cli.json("plan")["changes"]
    assert {"e2e-head", "e2e-worker-0"} <= {change["name"] for change in changes}
    assert {change["action"] for change in changes} == {"create"}
    assert site.left() == []


def test_a_quota_that_is_too_small_is_said_with_how_many_fit(
    cli: Cli, site: Site, administer: Administer, project: str
) -> None:
    with quota(administer, project, instances=3, cores=2):
        message = cli("deploy", "--nodes", "4", code=2).stderr
    assert "3 of 4 nodes fit: instance quota 3, in use 0, needed 4" in message
    assert "2 of 4 nodes fit: core quota 2, in use 0, needed 4" in message
    assert site.left() == []


def test_with_the_state_lost_orphans_are_found_by_tag_and_look_alikes_stay(
    cli: Cli, site: Site, apply_seconds: float
) -> None:
    alike = ("orchestrator-e2e-notours", "--tag", "orchestrator:e2e-else:0a1b2c3d")
    subprocess.run(["openstack", "network", "create", *alike], check=True, capture_output=True)
    try:
        until(cli, "Provisioning 2 nodes: done")
        assert len(site.left()) > 5
        shutil.rmtree(cli.state / "orchestrator" / "e2e")
        assert "teardown --orphans" in cli("teardown").stderr
        receipt = cli.json("teardown", "--orphans", "--yes")
        assert (len(receipt["made"]) > 5, receipt["left"]) == (True, [])
        assert site.left() == ["network orchestrator-e2e-notours"]
    finally:
        subprocess.run(["openstack", "network", "delete", alike[0]], check=True)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_deploy_killed_during_its_apply_is_finished_by_the_next_and_removed_by_teardown(
    cli: Cli, site: Site, apply_seconds: float, moment: float
) -> None:
    until(cli, "Provisioning", moment * apply_seconds, signal.SIGKILL)
    until(cli, REACHED)
    assert site.nodes() == ["e2e-head", "e2e-worker-0"]
    assert cli.json("teardown")["left"] == []
    assert site.left() == []


@pytest.mark.parametrize("moment", MOMENTS)
def test_what_a_killed_deploy_made_is_removed_by_teardown(
    cli: Cli, site: Site, apply_seconds: float, moment: float
) -> None:
    until(cli, "Provisioning", moment * apply_seconds, signal.SIGKILL)
    assert cli.json("teardown")["left"] == []
    assert site.left() == []
