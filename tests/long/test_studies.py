"""Studies killed at any moment and resumed: no launch is lost, none is repeated. STUDY_KILLS=10: ten kills.

The same holds for launches of the queue on the head if the command, then the queue, is killed. The last
test kills a study while the cluster grows, and leaves the cluster with two nodes.
"""

import itertools
import os
import random
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.runs.run_record import QUEUE
from orchestrator.schema.studies import Launch
from orchestrator.studies import journal
from tests.e2e.command import Cli, wait_for
from tests.e2e.training import HEAD, MNIST, ON_MNIST, WORKER

KILLS = int(os.environ.get("STUDY_KILLS", "3"))
LAUNCH_SECONDS = 10.0  # approximate; kills come within this time
CLUSTER = "e2e"
ROUNDS = 2
STUDY = f"""
name: killed
models: lenet
datasets: mnist
ranks: [1, 2]
data: {{mnist: {MNIST}}}
until: {{steps: 20}}
repetitions: {ROUNDS}
busy_repeats: 0
"""


@pytest.fixture(scope="module")
def deployed(cli: Cli) -> Iterator[Cli]:
    cli("deploy", "--nodes", "2", "--no-monitoring", cluster=CLUSTER)
    yield cli
    cli("teardown", cluster=CLUSTER)


def kill_and_finish(cli: Cli, cluster: str, kills: int) -> Path:
    """Start a study, kill it ``kills`` times at different moments, let it end, and return its directory."""
    moments = random.Random(25)  # noqa: S311
    (cli.state / "killed.yaml").write_text(STUDY)
    words, killed = ["study", "run", "killed.yaml"], 0
    while killed < kills:
        with cli.start(*words, cluster=cluster) as process:
            try:
                process.wait(moments.uniform(0.5, LAUNCH_SECONDS))
            except subprocess.TimeoutExpired:
                process.kill()
                killed += 1
            else:
                assert process.stdout
                assert process.returncode == 0, process.stdout.read()
                break
        if (cli.state / "killed-study" / journal.STUDY).exists():
            words = ["study", "run", "killed.yaml", "--resume"]
    cli("study", "run", "killed.yaml", "--resume", cluster=cluster)
    return cli.state / "killed-study"


def finished_runs(cli: Cli) -> set[str]:
    """Return the ids of the cluster's finished runs, which include those of other tests."""
    runs = cli.json("runs", cluster=CLUSTER)
    return {run["id"] for run in runs if run["state"] == "finished" and run["kind"] != QUEUE}


def check(directory: Path, runs: set[str]) -> list[Launch]:
    """Check that each launch of the rounds was measured once, and that these are the finished ``runs``."""
    launches = journal.read(directory)
    counted = Counter((launch.cell.ranks, launch.again, launch.round) for launch in launches)
    contestants = [(1, False), (2, False), (1, True)]
    assert counted == Counter((*contestant, number) for contestant in contestants for number in range(ROUNDS))
    assert [launch.problem for launch in launches] == [None] * len(launches)
    assert runs == {launch.run for launch in launches}
    assert all((directory / "runs" / str(launch.run) / "results.json").is_file() for launch in launches)
    assert not (directory / journal.STARTED).exists()
    return launches


def test_killed_study_loses_and_repeats_no_launch(deployed: Cli) -> None:
    before = finished_runs(deployed)
    directory = kill_and_finish(deployed, CLUSTER, KILLS)
    check(directory, finished_runs(deployed) - before)


def test_study_reports_the_time_added_to_its_launches(deployed: Cli) -> None:
    (deployed.state / "once.yaml").write_text(STUDY.replace("killed", "once"))
    report = deployed.json("study", "run", "once.yaml", cluster=CLUSTER)
    launches = report["sitting"]["launches"]
    assert len(launches) == 3 * ROUNDS
    own = sum(launch["seconds"] for launch in launches)
    assert report["overhead"] == pytest.approx(report["sitting"]["seconds"] / own - 1)
    assert report["overhead"] > 0


def states(cli: Cli, queue: str) -> list[str]:
    """Return the states of a queue and of its runs, in order."""
    runs = cli.json("runs", cluster=CLUSTER)
    return [run["state"] for run in runs if queue in (run["id"], run["queue"])]


def test_head_runs_the_launches_of_a_detached_study(deployed: Cli) -> None:
    before, directory = finished_runs(deployed), deployed.state / "apart-study"
    (deployed.state / "apart.yaml").write_text(STUDY.replace("killed", "apart"))
    queue = deployed.json("study", "run", "apart.yaml", "--detach", cluster=CLUSTER)["queue"]
    assert queue["launches"] == 3 * ROUNDS
    assert states(deployed, queue["queue"])[-1] == "running"
    assert "queued" in states(deployed, queue["queue"])
    refused = deployed("train", "lenet", *ON_MNIST, code=1, cluster=CLUSTER)
    assert "is using the cluster" in refused.stderr
    again = deployed("study", "run", "apart.yaml", "--resume", "--detach", code=1, cluster=CLUSTER)
    assert f"{queue['queue']} on the head: running" in again.stderr
    wait_for("the end of the queue", lambda: states(deployed, queue["queue"])[-1] != "running", 180.0)
    assert set(states(deployed, queue["queue"])) == {"finished"}
    assert journal.read(directory) == []
    report = deployed.json("study", "run", "apart.yaml", "--resume", cluster=CLUSTER)
    assert report["sitting"]["launches"] == []
    launches = check(directory, finished_runs(deployed) - before)
    order = [(launch.cell.ranks, launch.again, launch.round) for launch in launches]
    assert order == [(1, False, 0), (2, False, 0), (1, True, 0), (1, True, 1), (2, False, 1), (1, False, 1)]
    assert all(a.started + a.seconds < b.started for a, b in itertools.pairwise(launches))
    assert all(0 <= launch.busy < 1 for launch in launches)
    assert not (directory / journal.QUEUED).exists()


def detach_killed(cli: Cli, study: str, moments: random.Random) -> str:
    """Detach a study by commands that are killed, and return the id of the queue that one of them started."""
    words = ["study", "run", study]
    for _ in range(KILLS):
        with cli.start(*words, "--detach", cluster=CLUSTER) as process:
            try:
                process.wait(moments.uniform(0.5, LAUNCH_SECONDS))
            except subprocess.TimeoutExpired:
                process.kill()
        if (cli.state / "headless-study" / journal.STUDY).exists():
            words = ["study", "run", study, "--resume"]
    cli.start(*words, "--detach", cluster=CLUSTER).communicate()  # refused if an earlier command started the queue
    queued = journal.read_queued(cli.state / "headless-study")
    assert queued
    return queued.run


def test_queue_killed_on_the_head_loses_and_repeats_no_launch(deployed: Cli) -> None:
    before, moments = finished_runs(deployed), random.Random(26)  # noqa: S311
    (deployed.state / "headless.yaml").write_text(STUDY.replace("killed", "headless"))
    queue = detach_killed(deployed, "headless.yaml", moments)
    assert states(deployed, queue)[-1] == "running"
    time.sleep(moments.uniform(1.0, LAUNCH_SECONDS))
    unit = f"orchestrator-{queue}"
    deployed("ssh", HEAD, "--", "sudo", "systemctl", "kill", "--signal=KILL", "--kill-whom=main", unit, cluster=CLUSTER)
    wait_for("the end of the queue's processes", lambda: states(deployed, queue)[-1] == "lost", 30.0)
    deployed("study", "run", "headless.yaml", "--resume", cluster=CLUSTER)
    check(deployed.state / "headless-study", finished_runs(deployed) - before)


def kill_while_growing(cli: Cli, *words: str) -> None:
    """Start a study and kill it while it configures the second node."""
    with cli.start(*words, cluster=CLUSTER) as process:
        assert process.stdout
        grows = False
        for line in process.stdout:
            grows |= line.startswith("Provisioning 2 nodes")
            if grows and line.startswith("Configuring nodes"):
                break
        process.kill()
    assert grows


def test_study_killed_during_growth_completes_the_deploy(deployed: Cli) -> None:
    deployed("deploy", "--nodes", "1", "--no-monitoring", cluster=CLUSTER)
    growing = STUDY.replace("killed", "growing").replace("ranks", "nodes")
    (deployed.state / "growing.yaml").write_text(growing.replace(f"repetitions: {ROUNDS}", "repetitions: 1"))
    kill_while_growing(deployed, "study", "run", "growing.yaml")
    deployed("study", "run", "growing.yaml", "--resume", cluster=CLUSTER)
    launches = journal.read(deployed.state / "growing-study")
    assert [(launch.cell.nodes, launch.again) for launch in launches] == [(1, False), (1, True), (2, False)]
    assert [launch.problem for launch in launches] == [None] * 3
    health = deployed.json("status", cluster=CLUSTER)["health"]
    assert {name: all(check["ok"] for check in checks) for name, checks in health.items()} == {HEAD: True, WORKER: True}
