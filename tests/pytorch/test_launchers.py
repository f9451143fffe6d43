"""Launchers of PyTorch's scripts: one unmodified script under each of them, and a cluster of Ray for a run."""

import json
import re
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import launchers
from tests.e2e.command import Cli, docker
from tests.e2e.launchers import Nodes
from tests.pytorch.conftest import CLUSTER

SCRIPTS = Path(__file__).parent / "scripts"
EVERY_LINE = ("--env", "RAY_DEDUP_LOGS=0")  # else Ray holds back lines of workers that resemble each other
ABORTED = "terminate called without an active exception"
DDP, RAY = SCRIPTS / "ddp.py", SCRIPTS / "ray_train" / "train.py"


@pytest.fixture(scope="module", autouse=True)
def deployed(cli: Cli) -> Iterator[None]:
    cli("deploy", "--framework", "pytorch", "--nodes", "2", "--no-monitoring", cluster=CLUSTER)
    yield
    cli("teardown", "--discard-runs", cluster=CLUSTER)


@pytest.fixture
def ray(cli: Cli) -> Nodes:
    return Nodes(cli, CLUSTER, "auto")


def ray_version(cli: Cli) -> str:
    """The version that Ray's dashboard names, through a tunnel."""
    with cli.start("dashboard", "--ray", "--json", cluster=CLUSTER) as tunnel:
        assert tunnel.stdout
        text = "".join(iter(tunnel.stdout.readline, "}\n")) + "}"
        with urllib.request.urlopen(f"{json.loads(text[text.index('{') :])['ray']}/api/version", timeout=20) as answer:
            version: str = json.load(answer)["ray_version"]
        tunnel.kill()
    return version


@pytest.mark.parametrize("holds", launchers.STORY)
def test_what_holds_for_every_launcher_holds_for_torchrun(cli: Cli, holds: Callable[[Nodes], None]) -> None:
    holds(Nodes(cli, CLUSTER, "torchrun"))


def _without_abort(nodes: Nodes) -> Any:
    """Run the script; again if PyTorch aborted at the exit of a process, as 1 of 20 does under torchrun alone, too."""
    for _ in range(3):
        result = nodes.try_run(DDP)
        if result.returncode == 0 or ABORTED not in result.stderr:
            break
    assert result.returncode == 0, result.stderr
    return result


def test_one_script_has_the_same_losses_under_every_launcher(cli: Cli) -> None:
    losses = {}
    for launcher in ("auto", "horovod", "plain", "mpirun"):
        result = _without_abort(Nodes(cli, CLUSTER, launcher))
        losses[launcher] = re.findall("^loss (.*)$", result.stdout, re.MULTILINE)
        assert launcher != "auto" or "launcher: torchrun (the script imports torch.distributed" in result.stderr
    assert len(losses["auto"]) == 16
    assert float(losses["auto"][-1]) < float(losses["auto"][0])
    assert [each for each in losses.values() if each != losses["auto"]] == []


def test_ray_spreads_workers_over_the_nodes_with_the_packages_of_the_script(ray: Nodes) -> None:
    result = ray.run(RAY, "--env", "TOKEN=moon", *EVERY_LINE)
    assert "launcher: ray (the script imports ray" in result.stderr
    workers = set(re.findall(r"worker ([01]) on (\S+) with moon", result.stdout))
    assert {number for number, _ in workers} == {"0", "1"}
    assert {node for _, node in workers} == {ray.head, ray.worker}
    assert "trained by Ray" in result.stdout
    assert ray.left() == []


def test_a_worker_of_ray_that_raises_is_named(ray: Nodes) -> None:
    message = ray.run(RAY, arguments=["--fail"], code=1).stderr
    assert re.search(f"rank 1 on ({ray.head}|{ray.worker}) raised an error", message)
    assert "ValueError: the moon is in the wrong house" in message
    assert ray.left() == []


def test_a_worker_of_ray_that_is_killed_is_named_within_a_minute(ray: Nodes) -> None:
    words = ("run", *EVERY_LINE, "--", "python", str(RAY), "--wait")
    with ray.cli.start(*words, cluster=CLUSTER) as run:
        assert run.stdout
        matches = (re.search(rf"worker ([01]) on {ray.worker}", line) for line in run.stdout)
        rank = next(match[1] for match in matches if match)
        assert ray_version(ray.cli) == "2.60.0"
        docker("exec", ray.worker, "pkill", "-9", "-f", "^ray::RayTrainWorker")
        killed = time.monotonic()
        output = run.communicate(timeout=launchers.KILLED_SECONDS)[0]
        assert run.returncode == 1, output
        assert time.monotonic() - killed < launchers.KILLED_SECONDS
    assert f"rank {rank} on {ray.worker} raised an error" in output
    assert ray.left() == []
