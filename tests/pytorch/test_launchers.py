"""Launchers of PyTorch scripts: one unmodified script under each of them, and a Ray cluster for a run."""

import json
import re
import time
import urllib.error
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
EVERY_LINE = ("--env", "RAY_DEDUP_LOGS=0")  # Ray hides similar lines of different workers without it
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
    """Read the version from Ray's dashboard through a tunnel."""
    with cli.start("dashboard", "--ray", "--json", cluster=CLUSTER) as tunnel:
        assert tunnel.stdout
        text = "".join(iter(tunnel.stdout.readline, "}\n")) + "}"
        opened = json.loads(text[text.index("{") :])
        address, login = f"{opened['ray']}/api/version", {"Authorization": f"Bearer {opened['token']}"}
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(address, timeout=20)
        with urllib.request.urlopen(urllib.request.Request(address, headers=login), timeout=20) as answer:
            version: str = json.load(answer)["ray_version"]
        tunnel.kill()
    return version


@pytest.mark.parametrize("requirement", launchers.REQUIREMENTS)
def test_torchrun_meets_every_requirement(cli: Cli, requirement: Callable[[Nodes], None]) -> None:
    requirement(Nodes(cli, CLUSTER, "torchrun"))


def _without_abort(nodes: Nodes) -> Any:
    """Run the script; retry if PyTorch aborts when a process exits, as in 1 of 20 runs of plain torchrun."""
    for _ in range(3):
        result = nodes.try_run(DDP)
        if result.returncode == 0 or ABORTED not in result.stderr:
            break
    assert result.returncode == 0, result.stderr
    return result


def test_script_has_equal_losses_under_every_launcher(cli: Cli) -> None:
    losses = {}
    for launcher in ("auto", "horovod", "plain", "mpirun"):
        result = _without_abort(Nodes(cli, CLUSTER, launcher))
        losses[launcher] = re.findall("^loss (.*)$", result.stdout, re.MULTILINE)
        assert launcher != "auto" or "launcher: torchrun (the script imports torch.distributed" in result.stderr
    assert len(losses["auto"]) == 16
    assert float(losses["auto"][-1]) < float(losses["auto"][0])
    assert [each for each in losses.values() if each != losses["auto"]] == []


def test_ray_uses_all_nodes_and_the_scripts_packages(ray: Nodes) -> None:
    result = ray.run(RAY, "--env", "TOKEN=moon", *EVERY_LINE)
    assert "launcher: ray (the script imports ray" in result.stderr
    workers = set(re.findall(r"worker ([01]) on (\S+) with moon", result.stdout))
    assert {number for number, _ in workers} == {"0", "1"}
    assert {node for _, node in workers} == {ray.head, ray.worker}
    assert "trained by Ray" in result.stdout
    assert ray.processes_of_runs() == []


def test_failed_ray_worker_is_named(ray: Nodes) -> None:
    message = ray.run(RAY, arguments=["--fail"], code=1).stderr
    assert re.search(f"rank 1 on ({ray.head}|{ray.worker}) raised an error", message)
    assert "ValueError: the moon is in the wrong house" in message
    assert ray.processes_of_runs() == []


def test_killed_ray_worker_is_named_within_a_minute(ray: Nodes) -> None:
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
    assert ray.processes_of_runs() == []


def test_three_nodes_run_torchrun_and_ray(cli: Cli, ray: Nodes) -> None:
    """The cluster keeps the third node."""
    cli("deploy", "--framework", "pytorch", "--nodes", "3", "--no-monitoring", cluster=CLUSTER)
    ranks = launchers.environments(Nodes(cli, CLUSTER, "torchrun"))
    assert [(rank["RANK"], rank["NODE_RANK"], rank["WORLD_SIZE"]) for rank in ranks] == [
        (str(number), str(number), "3") for number in range(3)
    ]
    losses = re.findall("^loss (.*)$", _without_abort(Nodes(cli, CLUSTER, "torchrun")).stdout, re.MULTILINE)
    assert float(losses[-1]) < float(losses[0])
    workers = re.findall(
        r"worker ([012]) on (\S+) with", ray.run(RAY, *EVERY_LINE, arguments=["--workers", "3"]).stdout
    )
    assert {number for number, _ in workers} == {"0", "1", "2"}
    assert {node for _, node in workers} == {ray.head, ray.worker, f"{CLUSTER}-worker-1"}
