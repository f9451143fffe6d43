"""Cluster check: start every rank, verify an allreduce, time a step; choose Gloo or MPI by that time."""

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from orchestrator import lock, progress, providers, ssh, state
from orchestrator.cluster import PYTHON, Cluster, hostfile, hosts, require_a_gpu_each
from orchestrator.config import Launch
from orchestrator.errors import OrchestratorError, command
from orchestrator.runs import control, launch, log, store
from orchestrator.runs.launch import Run
from orchestrator.schema import CheckResult
from orchestrator.ssh import Session
from orchestrator.state import Home

KIND, MEASURED = "check", "check.json"
CONTROLLERS = ("gloo", "mpi")
GAIN = 1.1  # MPI must be this many times as fast: with other users on the machine, one program varies by as much


class Step(NamedTuple):
    """A measured step: seconds of a whole step, and the fraction of it (0 to 1) that was computed and sent."""

    seconds: float
    work: float


def start(place: Home, cluster: Cluster, digest: str, options: Launch, most_work: float = 1.0) -> Run:
    """Start the program that checks every rank and measures messages and a step.

    Args:
        place: State directory of the cluster.
        cluster: Deployed cluster.
        digest: Digest of the trainer image that the nodes must have.
        options: Launch options.
        most_work: Largest fraction of a step (0 to 1) to compute and send.

    Returns:
        The run, started.

    Raises:
        NodesFailed: A node is not healthy, or the head does not answer.
        StateError: Another run is active or starting.
        ConfigError: The options do not fit the nodes.
    """
    require_a_gpu_each(cluster)
    run = control.plan(cluster, options, KIND, control.ready(place, cluster, digest, options))
    run = run.model_copy(update={"command": [PYTHON, "-m", "orchestrator.trainer.check", str(most_work)]})
    with lock.starting(place), control.head_session(place, cluster) as head:
        control.start(place, cluster, head, run, {}, {})
    return run


def settled(place: Home, cluster: Cluster, digest: str, options: Launch) -> Launch:
    """Replace the controller "auto" in ``options`` with the one whose steps are faster on these nodes.

    Controllers without a measurement are measured now if the choice matters, which takes half a minute.

    Args:
        place: State directory of the cluster.
        cluster: Deployed cluster.
        digest: Digest of the trainer image that the nodes must have.
        options: Launch options; returned unchanged if they name a controller.

    Returns:
        The options with a controller.

    Raises:
        OrchestratorError: As for starting a run.
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
    """Choose the controller by the ``seconds`` of a step with each: MPI if it is GAIN times as fast, else Gloo."""
    gloo, mpi = (seconds.get(controller, math.inf) for controller in CONTROLLERS)
    return "mpi" if "gloo" in seconds and mpi * GAIN <= gloo < math.inf else "gloo"


def _counts(place: Home, cluster: Cluster, options: Launch) -> bool:
    """Tell whether the choice matters: ranks on several machines without GPUs (between GPUs NCCL carries gradients)."""
    record, _ = state.deployed(place)
    several = len(hosts(cluster, options.np)) > 1
    return several and not cluster.on_gpus and not providers.of_one_machine(record)


def _measured(place: Home, cluster: Cluster, options: Launch) -> dict[str, Step]:
    """Return the step by controller from the newest check of each with the same ranks; infinite seconds if failed."""
    newest = {run.controller: run for run in store.known(place) if run.kind == KIND and _alike(run, cluster, options)}
    if not newest:
        return {}
    with control.head_session(place, cluster) as head:
        found = {controller: _step(place, head, run, cluster) for controller, run in newest.items()}
    return {controller: step for controller, step in found.items() if step is not None}


def _alike(run: Run, cluster: Cluster, options: Launch) -> bool:
    """Tell whether ``run`` had as many ranks, and threads per rank, as a run with ``options`` would have."""
    return (run.np, run.threads) == (options.np or cluster.slots, launch.threads(cluster))


def _step(place: Home, head: Session, run: Run, cluster: Cluster) -> Step | None:
    """Return the step that ``run`` measured.

    None if the run was stopped, ran on other nodes, or an older version measured no step.
    """
    there = head.run(["cat", f"{run.directory}/hostfile"])
    if there.output != hostfile(cluster, run.np):
        return None
    if control.look(place, head, run).state == "failed":
        return Step(math.inf, 1.0)
    path = f"{run.directory}/{MEASURED}"
    answer = head.run(["cat", path])
    if answer.exit_code:
        return None
    found = ssh.parsed(CheckResult, answer.output, head, path, f"{command('check', cluster.name)} measures again")
    return Step(found.whole_step_seconds, found.step_work) if found.whole_step_seconds else None


def _measure(place: Home, cluster: Cluster, digest: str, options: Launch, most_work: float) -> None:
    """Run one check to its end; stop it if this command is interrupted."""
    run = start(place, cluster, digest, options, most_work)
    try:
        with progress.step(f"Measuring a step over {options.controller}, once on these nodes") as step:
            for line in log.lines(control.watch(place, cluster, run)):
                step.detail(line.text)
    except BaseException:
        with suppress(OrchestratorError), control.head_session(place, cluster) as head:
            control.stop(head, run)
        raise
