"""The default controller of a run."""

import math
from pathlib import Path
from typing import Any

import pytest

from orchestrator import state
from orchestrator.cluster import Cluster
from orchestrator.config import Config, Launch, Train
from orchestrator.recipes import gradient_exchange
from orchestrator.runs import check, gloo_or_mpi, run_record, store
from orchestrator.runs.launchers import hostfile
from orchestrator.schema import CheckResult, RunStatus
from orchestrator.state import Record, StateDir
from tests import builders
from tests.stand_ins import ssh_stand_in


@pytest.mark.parametrize(
    ("seconds", "chosen"),
    [
        ({}, "gloo"),
        ({"gloo": 1.0}, "gloo"),
        ({"mpi": 0.1}, "gloo"),  # without a measurement of gloo
        ({"gloo": 1.0, "mpi": 0.95}, "gloo"),
        ({"gloo": 1.0, "mpi": 0.9}, "mpi"),
        ({"gloo": 1.0, "mpi": math.inf}, "gloo"),
        ({"gloo": math.inf, "mpi": math.inf}, "gloo"),
    ],
)
def test_mpi_is_chosen_if_its_steps_are_a_tenth_faster(seconds: dict[str, float], chosen: str) -> None:
    assert gloo_or_mpi.faster(seconds) == chosen


def test_steps_of_different_work_are_compared_per_work() -> None:
    """A slow node measured a tenth of the step."""
    measured: dict[str, Any] = {"size": 2, "expected_sum": 3.0, "ranks": [], "sizes": []}
    tenth = CheckResult(**measured, step_seconds=1.0, step_work=0.1)
    whole = CheckResult(**measured, step_seconds=9.5, step_work=1.0)
    assert (tenth.whole_step_seconds, whole.whole_step_seconds) == (10.0, 9.5)


def checked(state_dir: StateDir, cluster: Cluster, controller: str, seconds: float, hosts: str) -> None:
    """Record a check that measured a step of ``seconds`` on ``hosts``, the text of a hostfile."""
    ranks: dict[str, Any] = {"np": cluster.slots, "threads": run_record.threads(cluster)}
    run = builders.run(id=f"check-{controller}", kind=check.KIND, controller=controller, **ranks)
    store.save(state_dir, run)
    RunStatus(state="finished", exit_code=0, started=1.0, ended=2.0).write(state_dir.runs / run.id / "status.json")
    directory = Path(run.directory)
    directory.mkdir(parents=True)
    (directory / "hostfile").write_text(hosts)
    measured = builders.check([], ["demo-head", "demo-head"]).model_copy(update={"step_seconds": seconds})
    measured.write(directory / check.MEASURED)


@pytest.mark.parametrize(
    ("mpi", "others", "chosen"), [(0.9, "", "mpi"), (0.95, "", "gloo"), (0.9, "10.0.0.99 slots=2\n", "gloo")]
)
def test_checks_of_the_same_hosts_choose_the_controller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mpi: float, others: str, chosen: str
) -> None:
    monkeypatch.setattr(run_record, "SHARED", str(tmp_path))
    with ssh_stand_in.listening(ssh_stand_in.honest) as (port, host_key):
        state_dir, cluster = ssh_stand_in.deployed(port, host_key, slots=2)
        config = Config(name="demo", nodes=1).model_dump(mode="json")
        state.write(state_dir, Record(id="1a2b3c4d", config=config, cluster=cluster))
        for controller, seconds in (("gloo", 1.0), ("mpi", mpi)):
            checked(state_dir, cluster, controller, seconds, others or hostfile.text(cluster))
        options = gloo_or_mpi.choose(state_dir, cluster, builders.DIGEST, Launch())
    assert options.controller == chosen


@pytest.mark.parametrize(
    ("requested", "adasum", "controller"),
    [("auto", False, "auto"), ("auto", True, "mpi"), ("gloo", True, "gloo"), ("mpi", False, "mpi")],
)
def test_adasum_selects_mpi_by_default(requested: Any, adasum: bool, controller: str) -> None:
    train = Train(model="resnet20", dataset="synthetic", adasum=adasum)
    assert gradient_exchange.launch_options(train, Launch(controller=requested)).controller == controller


@pytest.mark.parametrize("controller", ["gloo", "mpi"])
def test_requested_controller_needs_no_measurement(controller: Any) -> None:
    """The cluster has no node, so contacting one would fail."""
    options = Launch(controller=controller)
    assert gloo_or_mpi.choose(builders.deployed(), builders.cluster(), builders.DIGEST, options) == options


@pytest.mark.parametrize(
    ("provider", "nodes", "gpus", "np"),
    [("local", 2, 0, None), ("gcp", 2, 1, None), ("gcp", 1, 0, None), ("gcp", 2, 0, 1)],
)
def test_gloo_is_not_measured_if_it_cannot_matter(provider: str, nodes: int, gpus: int, np: int | None) -> None:
    """On one machine, between GPUs, or with one rank. The cluster has no node to contact."""
    state_dir = builders.deployed(provider=provider)
    cluster = builders.cluster(nodes=nodes, gpus=gpus)
    assert gloo_or_mpi.choose(state_dir, cluster, builders.DIGEST, Launch(np=np)).controller == "gloo"


def test_measurements_of_other_ranks_or_programs_are_ignored() -> None:
    """The cluster has no node, so a new measurement would fail."""
    state_dir, cluster = builders.deployed(), builders.cluster()
    alike: dict[str, Any] = {"kind": check.KIND, "np": cluster.slots, "threads": run_record.threads(cluster)}
    for key, other in {"kind": "script", "np": 1, "threads": 7}.items():
        store.save(state_dir, builders.run(id=f"run-{key}", **{**alike, key: other}))
    assert gloo_or_mpi.choose(state_dir, cluster, builders.DIGEST, Launch()).controller == "gloo"
    assert Config().launch.controller == "auto"
