"""Choose Gloo or MPI by the time of a step, measured once on the nodes."""

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from orchestrator import progress, providers, ssh, state
from orchestrator.cluster import Cluster, hosts
from orchestrator.config import Launch
from orchestrator.errors import OrchestratorError, command
from orchestrator.runs import check, control, log_display, run_record, store
from orchestrator.runs.check import KIND, MEASURED
from orchestrator.runs.launchers import hostfile
from orchestrator.runs.run_record import Run
from orchestrator.schema import CheckResult
from orchestrator.ssh import Session
from orchestrator.state import StateDir

CONTROLLERS = ("gloo", "mpi")
GAIN = 1.1  # MPI must be this many times as fast: with other users on the machine, one program varies by as much


class Step(NamedTuple):
    """A measured step: seconds of a whole step, and the fraction of it (0 to 1) that was computed and sent."""

    seconds: float
    work: float


def choose(state_dir: StateDir, cluster: Cluster, digest: str, options: Launch) -> Launch:
    """Replace the controller "auto" in ``options`` with the one whose steps are faster on these nodes.

    Controllers without a measurement are measured now if the choice matters, which takes half a minute.

    Args:
        state_dir: State directory of the cluster.
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
    steps = _measured_steps(state_dir, cluster, options)
    missing = (
        [name for name in CONTROLLERS if name not in steps] if _choice_matters(state_dir, cluster, options) else []
    )
    for controller in missing:
        same = Launch(np=options.np, network_interface=options.network_interface, controller=controller)
        _measure(state_dir, cluster, digest, same, min((step.work for step in steps.values()), default=1.0))
        steps = _measured_steps(state_dir, cluster, options)
    seconds = {controller: step.seconds for controller, step in steps.items()}
    chosen = faster(seconds)
    if chosen == "mpi":
        times = " and ".join(f"{seconds[name]:.3g} s over {name}" for name in CONTROLLERS)
        progress.note(f"over {chosen}: a step took {times} on these nodes; --controller gloo overrides that")
    return options.model_copy(update={"controller": chosen})


def faster(seconds: Mapping[str, float]) -> str:
    """Choose the controller by the ``seconds`` of a step with each: MPI if it is GAIN times as fast, else Gloo."""
    gloo, mpi = (seconds.get(controller, math.inf) for controller in CONTROLLERS)
    return "mpi" if "gloo" in seconds and mpi * GAIN <= gloo < math.inf else "gloo"


def _choice_matters(state_dir: StateDir, cluster: Cluster, options: Launch) -> bool:
    """Tell whether the choice matters: ranks on several machines without GPUs (between GPUs NCCL carries gradients)."""
    record, _ = state.deployed(state_dir)
    several = len(hosts(cluster, options.np)) > 1
    return several and not cluster.on_gpus and not providers.of_one_machine(record)


def _measured_steps(state_dir: StateDir, cluster: Cluster, options: Launch) -> dict[str, Step]:
    """Return the step by controller from the newest check of each with the same ranks; infinite seconds if failed."""
    newest = {
        run.controller: run
        for run in store.list_runs(state_dir)
        if run.kind == KIND and _has_same_ranks(run, cluster, options)
    }
    if not newest:
        return {}
    with control.head_session(state_dir, cluster) as head:
        steps = {controller: _step(state_dir, head, run, cluster) for controller, run in newest.items()}
    return {controller: step for controller, step in steps.items() if step is not None}


def _has_same_ranks(run: Run, cluster: Cluster, options: Launch) -> bool:
    """Tell whether ``run`` had as many ranks, and threads per rank, as a run with ``options`` would have."""
    return (run.np, run.threads) == (options.np or cluster.slots, run_record.threads(cluster))


def _step(state_dir: StateDir, head: Session, run: Run, cluster: Cluster) -> Step | None:
    """Return the step that ``run`` measured; None if the run was stopped, or ran on other nodes."""
    measured_hosts = head.run(["cat", f"{run.directory}/hostfile"])
    if measured_hosts.output != hostfile.text(cluster, run.np):
        return None
    if control.get_state(state_dir, head, run).state == "failed":
        return Step(math.inf, 1.0)
    path = f"{run.directory}/{MEASURED}"
    answer = head.run(["cat", path])
    if answer.exit_code:
        return None
    result = ssh.parsed(CheckResult, answer.output, head, path, f"{command('check', cluster.name)} measures again")
    return Step(result.whole_step_seconds, result.step_work)


def _measure(state_dir: StateDir, cluster: Cluster, digest: str, options: Launch, most_work: float) -> None:
    """Run one check to its end; stop it if this command is interrupted."""
    run = check.start(state_dir, cluster, digest, options, most_work)
    try:
        with progress.step(f"Measuring a step over {options.controller}, once on these nodes") as step:
            for line in log_display.lines(control.watch(state_dir, cluster, run)):
                step.detail(line.text)
    except BaseException:
        with suppress(OrchestratorError), control.head_session(state_dir, cluster) as head:
            control.stop(head, run)
        raise
