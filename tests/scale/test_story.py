"""One story with many local nodes, in order: deploy, check, run, kill two nodes, repair, tear down.

``SCALE_NODES`` is the number of nodes (32), for which two cores and 24 GB are enough.
"""

import os
import time
from pathlib import Path

from tests.e2e.command import Cli, docker, resources_on_engine

NODES = int(os.environ.get("SCALE_NODES", "32"))
KILLED = ["e2e-worker-0", f"e2e-worker-{NODES - 2}"]


def test_every_node_is_deployed_and_healthy(cli: Cli) -> None:
    deployment = cli.json("deploy", "--nodes", str(NODES))
    assert len(deployment["cluster"]["nodes"]) == NODES
    assert deployment["missing"] == {}


def test_second_deploy_changes_nothing_and_is_quick(cli: Cli) -> None:
    began = time.monotonic()
    again = cli.json("deploy")
    assert set(again["changed"].values()) == {0}
    assert time.monotonic() - began < 10 + NODES


def test_node_may_use_more_than_its_share_of_cores() -> None:
    shares = docker("inspect", "--format", "{{.HostConfig.NanoCpus}} {{.HostConfig.CpuShares}}", "e2e-head")
    quota, weight = map(int, shares[0].split())
    assert quota >= 10**9
    assert weight < 1024


def test_every_rank_of_a_script_writes_its_line(cli: Cli, tmp_path: Path) -> None:
    script = tmp_path / "line.py"
    script.write_text("import os\nprint('line of rank', os.environ['HOROVOD_RANK'])\n")
    output = cli("run", "--controller", "gloo", "--", "python", str(script)).stdout
    assert {line.split()[-1] for line in output.splitlines() if "line of rank" in line} == set(map(str, range(NODES)))


def test_allreduce_of_all_ranks_is_correct(cli: Cli) -> None:
    ranks = cli.json("check", "--controller", "gloo")["ranks"]
    assert len(ranks) == NODES
    assert {rank["allreduce_sum"] for rank in ranks} == {NODES * (NODES + 1) / 2}


def test_no_run_starts_with_two_killed_nodes(cli: Cli, tmp_path: Path) -> None:
    docker("kill", *KILLED)
    script = tmp_path / "line.py"
    script.write_text("print('here')\n")
    message = cli("run", "--controller", "gloo", "--", "python", str(script), code=1).stderr
    assert all(name in message for name in KILLED)


def test_deploy_replaces_both_and_changes_no_other_worker(cli: Cli) -> None:
    healed = cli.json("deploy")
    changed = {name for name, count in healed["changed"].items() if count}
    assert changed == {"e2e-head", *KILLED}


def test_teardown_leaves_nothing(cli: Cli) -> None:
    receipt = cli.json("teardown")
    assert receipt["left"] == []
    assert resources_on_engine() == []
