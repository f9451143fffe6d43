"""The proof of a cluster: every rank is there, an allreduce sums, what a step costs; and by that, what carries runs."""

import math
from collections.abc import Mapping
from contextlib import suppress

from orchestrator import launch, lock, progress, providers, records, runs, state
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


def start(place: Home, cluster: Cluster, digest: str, options: Launch) -> Run:
    """Start the program that proves every rank, and measures messages and a step."""
    require_a_gpu_each(cluster)
    run = runs.plan(cluster, options, KIND, runs.ready(place, cluster, digest, options))
    run = run.model_copy(update={"command": [PYTHON, "-m", "orchestrator.trainer.hello"]})
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
    seconds = _measured(place, cluster, options)
    missing = [name for name in CONTROLLERS if name not in seconds] if _counts(place, cluster, options) else []
    for controller in missing:
        _measure(
            place,
            cluster,
            digest,
            Launch(np=options.np, network_interface=options.network_interface, controller=controller),
        )
    seconds = _measured(place, cluster, options) if missing else seconds
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


def _measured(place: Home, cluster: Cluster, options: Launch) -> dict[str, float]:
    """Seconds of a step by controller, of the newest proof with each of just these ranks; infinite where it failed."""
    newest = {run.controller: run for run in records.known(place) if run.kind == KIND and _alike(run, cluster, options)}
    if not newest:
        return {}
    with runs.head_session(place, cluster) as head:
        found = {controller: _seconds(place, head, run, cluster) for controller, run in newest.items()}
    return {controller: seconds for controller, seconds in found.items() if seconds is not None}


def _alike(run: Run, cluster: Cluster, options: Launch) -> bool:
    return (run.np, run.threads) == (options.np or cluster.slots, launch.threads(cluster))


def _seconds(place: Home, head: Session, run: Run, cluster: Cluster) -> float | None:
    """None where it was never measured: by a run that was stopped, or of other nodes, or of an older version."""
    there = head.run(["cat", f"{run.directory}/hostfile"])
    if there.output != hostfile(cluster, run.np):
        return None
    if runs.look(place, head, run).state == "failed":
        return math.inf
    answer = head.run(["cat", f"{run.directory}/{MEASURED}"])
    return Hello.model_validate_json(answer.output).step_seconds if answer.exit_code == 0 else None


def _measure(place: Home, cluster: Cluster, digest: str, options: Launch) -> None:
    """One proof, to its end; stopped where this is interrupted."""
    run = start(place, cluster, digest, options)
    try:
        with progress.step(f"Measuring a step over {options.controller}, once on these nodes"):
            for _ in runs.watch(place, cluster, run):
                pass
    except BaseException:
        with suppress(OrchestratorError), runs.head_session(place, cluster) as head:
            runs.stop(head, run)
        raise
