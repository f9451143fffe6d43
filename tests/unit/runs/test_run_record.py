"""Argument lists that start a run, compared as a whole."""

import json
from typing import Any

import pytest

from orchestrator.runs import launchers, run_record
from orchestrator.runs.control import systemd_units
from orchestrator.runs.launchers import horovod
from tests import builders

HOROVODRUN = [
    "/opt/orchestrator/bin/python",
    "-P",
    "-m",
    "orchestrator.trainer.supervision.horovodrun",
    "--gloo",
    "-np",
    "2",
    "--hostfile",
    "/shared/runs/resnet20-mnist-1/hostfile",
    "--network-interfaces",
    "eth0",
    "--start-timeout",
    "128",
    "--gloo-timeout-seconds",
    "128",
    "--cycle-time-ms",
    "5",
    "--disable-cache",
    "/opt/orchestrator/bin/python",
    "-P",
    "-m",
    "orchestrator.trainer.supervision.rank_wrapper",
    "/shared/runs/resnet20-mnist-1",
]
ENVIRONMENT = {
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    "PATH": "/opt/orchestrator/bin:/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "PYTHONUNBUFFERED": "1",
    "OMP_NUM_THREADS": "2",
    "TF_NUM_INTRAOP_THREADS": "2",
    "ORCHESTRATOR_RUN": "resnet20-mnist-1",
    "ORCHESTRATOR_RUN_DIR": "/shared/runs/resnet20-mnist-1",
    "ORCHESTRATOR_OUTPUT": "/shared/runs/resnet20-mnist-1/output",
}


def test_packages_of_the_user_precede_those_of_the_image() -> None:
    path = run_record.environment(builders.run(packages="/shared/packages/0123456789ab"))["PATH"]
    assert path == f"/shared/packages/0123456789ab/bin:{ENVIRONMENT['PATH']}"


def test_horovodrun_is_launched_over_gloo() -> None:
    assert horovod.command(builders.run()) == HOROVODRUN


def test_horovodrun_is_launched_over_mpi() -> None:
    at = HOROVODRUN.index("--gloo-timeout-seconds")
    expected = ["--mpi" if word == "--gloo" else word for word in HOROVODRUN[:at] + HOROVODRUN[at + 2 :]]
    assert horovod.command(builders.run(controller="mpi")) == expected


def test_cycle_time_may_be_a_fraction_of_a_millisecond() -> None:
    command = horovod.command(builders.run(cycle_time=0.5))
    assert command[command.index("--cycle-time-ms") + 1] == "0.5"


LOG = "/shared/runs/resnet20-mnist-1/autotune.csv"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ["--cycle-time-ms", "5"]),
        ({"fusion_threshold": 0}, ["--cycle-time-ms", "5", "--fusion-threshold-mb", "0"]),
        ({"autotune": True, "cycle_time": None}, ["--autotune", "--autotune-log-file", LOG]),
        (
            {"autotune": True, "fusion_threshold": 64},
            ["--cycle-time-ms", "5", "--fusion-threshold-mb", "64", "--autotune", "--autotune-log-file", LOG],
        ),
    ],
)
def test_horovod_gets_set_values_and_tunes_the_rest_into_a_log(changes: dict[str, Any], words: list[str]) -> None:
    at = HOROVODRUN.index("--cycle-time-ms")
    assert horovod.command(builders.run(**changes)) == [*HOROVODRUN[:at], *words, *HOROVODRUN[at + 2 :]]


@pytest.mark.parametrize(
    ("requested", "autotune", "used"),
    [(None, False, "5"), (None, True, None), (25.0, False, "25"), (25.0, True, "25"), (0.0, False, "0")],
)
def test_default_cycle_time_is_used_unless_it_is_set_or_tuned(
    requested: float | None, autotune: bool, used: str | None
) -> None:
    command = horovod.command(builders.run(cycle_time=requested, autotune=autotune))
    assert (command[command.index("--cycle-time-ms") + 1] if "--cycle-time-ms" in command else None) == used


@pytest.mark.parametrize("controller", ["gloo", "mpi"])
def test_unit_outlives_the_connection_and_supervises_launcher(controller: str) -> None:
    run = builders.run(controller=controller)
    directory = "/shared/runs/resnet20-mnist-1"
    log = f"append:{directory}/log"
    assert systemd_units.unit_command(builders.cluster(), run) == [
        *("systemd-run", "--quiet", "--collect", "--unit", "orchestrator-resnet20-mnist-1"),
        *("--uid", "orchestrator"),
        *("--property", "WorkingDirectory=/shared/runs/resnet20-mnist-1"),
        *("--property", f"StandardOutput={log}"),
        *("--property", f"StandardError={log}"),
        *("--property", "KillMode=mixed"),
        *("--property", "TimeoutStopSec=150"),
        *("--property", "OOMPolicy=continue"),
        *("--property", f"ExecStopPost=-rm -f {directory}/environment.json {directory}/ray_token"),
        *(word for name, value in ENVIRONMENT.items() for word in ("--setenv", f"{name}={value}")),
        *("--", "/opt/orchestrator/bin/python", "-P", "-m", "orchestrator.trainer.supervision.supervise"),
        "/shared/runs/resnet20-mnist-1",
    ]


def test_program_is_in_files_that_no_shell_or_systemd_expands() -> None:
    words = ["python", "train.py", "--price", "$5 %h 'é'"]
    files = launchers.files(builders.cluster(), builders.run(command=words))
    assert json.loads(files["command.json"]) == HOROVODRUN
    assert json.loads(files["program.json"]) == words
    assert files["hostfile"] == "10.0.0.10 slots=1\n10.0.0.11 slots=1\n"


@pytest.mark.parametrize(("kind", "trainer"), [("script", False), ("resnet20-mnist", True)])
def test_nodes_are_told_whether_a_run_is_of_the_trainer(kind: str, trainer: bool) -> None:
    files = launchers.files(builders.cluster(), builders.run(kind=kind))
    assert json.loads(files["launch.json"])["trainer"] is trainer


def test_environment_of_ranks_has_exactly_these_names() -> None:
    assert run_record.environment(builders.run()) == ENVIRONMENT


@pytest.mark.parametrize("kind", ["script", "queue"])
def test_memory_of_scripts_is_as_their_users_expect(kind: str) -> None:
    names = run_record.environment(builders.run(kind=kind)).keys()
    assert names == ENVIRONMENT.keys() - {"GLIBC_TUNABLES"}


def test_local_environment_does_not_reach_a_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OS_PASSWORD", "hunter2")
    words = systemd_units.unit_command(builders.cluster(), builders.run())
    assert not any("hunter2" in word or "OS_PASSWORD" in word for word in words)


@pytest.mark.parametrize(
    ("cpus", "slots", "threads"), [(8.0, 2, 4), (2.0, 1, 2), (1.0, 4, 1), (0.5, 1, 1), (7.9, 2, 3)]
)
def test_ranks_share_the_cores_of_their_node_and_have_at_least_one(cpus: float, slots: int, threads: int) -> None:
    assert run_record.threads(builders.cluster(slots=slots, cpus=cpus)) == threads


def test_threads_of_other_slots_than_deployed() -> None:
    assert run_record.threads(builders.cluster(slots=2, cpus=8.0), slots=4) == 2


def test_node_with_the_fewest_cores_sets_the_threads_of_a_rank() -> None:
    cluster = builders.cluster(cpus=8.0)
    poor = cluster.nodes["demo-worker-0"].model_copy(update={"cpus": 3.0})
    assert run_record.threads(cluster.model_copy(update={"nodes": {**cluster.nodes, "demo-worker-0": poor}})) == 3


def test_run_of_a_queue_has_the_unit_of_the_queue() -> None:
    queue = builders.run(id="queue-1", kind=run_record.QUEUE)
    assert builders.run(queue=queue.id).unit == queue.unit == "orchestrator-queue-1"
    words = systemd_units.unit_command(builders.cluster(), queue)
    assert words[-2:] == ["orchestrator.trainer.supervision.start_queued_runs", queue.directory]
