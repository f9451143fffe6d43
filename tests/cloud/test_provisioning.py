"""Provisioning on a real cloud: quotas, resources of other deployments with similar names, and killed deploys."""

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
    """Lower the project's quota within the context."""
    before = json.loads(administer("quota", "show", "--format", "json", project))
    usual = {row["Resource"]: row["Limit"] for row in before} if isinstance(before, list) else before
    try:
        administer("quota", "set", *(f"--{key}={value}" for key, value in limits.items()), project)
        yield
    finally:
        administer("quota", "set", *(f"--{key}={usual[key]}" for key in limits), project)


def deploy_until(cli: Cli, line: str, seconds: float = 0.0, number: signal.Signals = signal.SIGINT) -> list[str]:
    """Run a deploy, send it a signal ``seconds`` after it prints ``line``, and return its output."""
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
    """Return how many seconds it takes to provision two nodes on this cloud."""
    started = time.monotonic()
    deploy_until(cli, "Provisioning 2 nodes: done")
    yield time.monotonic() - started
    cli("teardown")


def test_plan_lists_changes_and_creates_nothing(cli: Cli, site: Site) -> None:
    changes = cli.json("plan")["changes"]
    assert {"e2e-head", "e2e-worker-0"} <= {change["name"] for change in changes}
    assert {change["action"] for change in changes} == {"create"}
    assert site.list_resources() == []


def test_too_small_quota_is_refused_with_number_of_nodes_that_fit(
    cli: Cli, site: Site, administer: Administer, project: str
) -> None:
    with quota(administer, project, instances=3, cores=2):
        message = cli("deploy", "--nodes", "4", code=2).stderr
    assert "3 of 4 nodes fit: instance quota 3, in use 0, needed 4" in message
    assert "2 of 4 nodes fit: core quota 2, in use 0, needed 4" in message
    assert site.list_resources() == []


def test_lost_state_finds_orphans_by_tag_and_keeps_similar_names(cli: Cli, site: Site, apply_seconds: float) -> None:
    alike = ("orchestrator-e2e-notours", "--tag", "orchestrator:e2e-else:0a1b2c3d")
    subprocess.run(["openstack", "network", "create", *alike], check=True, capture_output=True)
    try:
        deploy_until(cli, "Provisioning 2 nodes: done")
        assert len(site.list_resources()) > 5
        shutil.rmtree(cli.state / "orchestrator" / "e2e")
        assert "teardown --orphans" in cli("teardown").stderr
        receipt = cli.json("teardown", "--orphans", "--yes")
        assert (len(receipt["made"]) > 5, receipt["left"]) == (True, [])
        assert site.list_resources() == ["network orchestrator-e2e-notours"]
    finally:
        subprocess.run(["openstack", "network", "delete", alike[0]], check=True)


@pytest.mark.parametrize("moment", MOMENTS)
def test_deploy_killed_in_apply_is_completed_by_next_deploy(
    cli: Cli, site: Site, apply_seconds: float, moment: float
) -> None:
    deploy_until(cli, "Provisioning", moment * apply_seconds, signal.SIGKILL)
    deploy_until(cli, REACHED)
    assert site.list_nodes() == ["e2e-head", "e2e-worker-0"]
    assert cli.json("teardown")["left"] == []
    assert site.list_resources() == []


@pytest.mark.parametrize("moment", MOMENTS)
def test_deploy_killed_in_apply_is_removed_by_teardown(
    cli: Cli, site: Site, apply_seconds: float, moment: float
) -> None:
    deploy_until(cli, "Provisioning", moment * apply_seconds, signal.SIGKILL)
    assert cli.json("teardown")["left"] == []
    assert site.list_resources() == []
