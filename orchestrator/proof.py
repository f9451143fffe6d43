"""The proof of a cluster: every rank is there, an allreduce sums, what a step costs; and by that, what carries runs."""

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from orchestrator import launch, lock, progress, providers, records, runlog, runs, state
from orchestrator.cluster import PYTHON, Cluster, hostfile, hosts, require_a_gpu_each
from orchestrator.config import Launch
from orchestrator.errors import OrchestratorError
from orchestrator.launch import Run
from orchestrator.schema import Hello
from orchestrator.ssh import Session
from orchestrator.state import Home

KIND, MEASURED = "check", "hello.json"
CONTROLLERS = ("gloo", "mpi")
GAIN = 1.1  # how many times as fast MPI must be: one program is that much faster than itself beside other users


class Step(NamedTuple):
    """A step as `check` measured it: seconds of a whole one, and the share of it that was computed and sent."""

    seconds: float
    work: float


def start(place: Home, cluster: Cluster, digest: str, options: Launch, most_work: float = 1.0) -> Run:
    """Start the program that proves every rank, and measures messages and a step, of which at most this share."""
    require_a_gpu_each(cluster)
    run = runs.plan(cluster, options, KIND, runs.ready(place, cluster, digest, options))
    run = run.model_copy(update={"command": [PYTHON, "-m", "orchestrator.trainer.hello", str(most_work)]})
    with lock.starting(place), runs.head_session(place, cluster) as head:
        runs.start(place, cluster, head, run, {}, {})
    return run


def settled(place: Home, cluster: Cluster, digest: str, options: Launch) -> Launch:
    """``options`` with a controller in place of "auto": the one that steps were faster with on these nodes.

    What was not measured yet is measured now where it counts, which takes half a minute. Raises what starting a run
    does.
    """
    if options.controller != "auto":
        return options
    steps = _measured(place, cluster, options)
    missing = [name for name in CONTROLLERS if name not in steps] if _counts(place, cluster, options) else []
    for controller in missing:
        same = Launch(np=options.np, network_interface=options.network_interface, controller=controller)
        _measure(place, cluster, digest, same, min((step.work for step in steps.values()), default=1.0))
        steps = _measured(place, cluster, options)
    seconds = {controller: step.seconds for controller, step in steps.items()}
    chosen = faster(seconds)
    if chosen == "mpi":
        said = " and ".join(f"{seconds[name]:.3g} s over {name}" for name in CONTROLLERS)
        progress.note(f"over {chosen}: a step took {said} on these nodes; --controller gloo overrides that")
    return options.model_copy(update={"controller": chosen})


def faster(seconds: Mapping[str, float]) -> str:
    """The controller to use where a step takes so many ``seconds`` with each: MPI where it gains by GAIN, else Gloo."""
    gloo, mpi = (seconds.get(controller, math.inf) for controller in CONTROLLERS)
    return "mpi" if "gloo" in seconds and mpi * GAIN <= gloo < math.inf else "gloo"


def _counts(place: Home, cluster: Cluster, options: Launch) -> bool:
    """Whether ranks are on several machines, without GPUs: between these NCCL carries gradients."""
    record, _ = state.deployed(place)
    several = len(hosts(cluster, options.np)) > 1
    return several and not cluster.on_gpus and not providers.of_one_machine(record)


def _measured(place: Home, cluster: Cluster, options: Launch) -> dict[str, Step]:
    """The step by controller, of the newest proof with each of just these ranks; infinite if that failed."""
    newest = {run.controller: run for run in records.known(place) if run.kind == KIND and _alike(run, cluster, options)}
    if not newest:
        return {}
    with runs.head_session(place, cluster) as head:
        found = {controller: _step(place, head, run, cluster) for controller, run in newest.items()}
    return {controller: step for controller, step in found.items() if step is not None}


def _alike(run: Run, cluster: Cluster, options: Launch) -> bool:
    return (run.np, run.threads) == (options.np or cluster.slots, launch.threads(cluster))


def _step(place: Home, head: Session, run: Run, cluster: Cluster) -> Step | None:
    """None where it was never measured: by a run that was stopped, or of other nodes, or of an older version."""
    there = head.run(["cat", f"{run.directory}/hostfile"])
    if there.output != hostfile(cluster, run.np):
        return None
    if runs.look(place, head, run).state == "failed":
        return Step(math.inf, 1.0)
    answer = head.run(["cat", f"{run.directory}/{MEASURED}"])
    if answer.exit_code:
        return None
    found = Hello.model_validate_json(answer.output)
    return Step(found.whole_step_seconds, found.step_work) if found.whole_step_seconds else None


def _measure(place: Home, cluster: Cluster, digest: str, options: Launch, most_work: float) -> None:
    """One proof, to its end; stopped where this is interrupted."""
    run = start(place, cluster, digest, options, most_work)
    try:
        with progress.step(f"Measuring a step over {options.controller}, once on these nodes") as step:
            for line in runlog.lines(runs.watch(place, cluster, run)):
                step.detail(line.text)
    except BaseException:
        with suppress(OrchestratorError), runs.head_session(place, cluster) as head:
            runs.stop(head, run)
        raise
