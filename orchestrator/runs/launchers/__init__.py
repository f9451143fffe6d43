"""Launchers: how the ranks of a run start. Each is a module with one pure function, ``plan``."""

import json
from collections import Counter
from collections.abc import Callable, Iterator

from orchestrator import launch_layout, progress
from orchestrator.cluster import Cluster, ranks_by_host
from orchestrator.runs.launchers import horovod, hostfile, mpirun, plain, ray, tensorflow, torchrun
from orchestrator.runs.launchers.launch_plan import Plan, Slots
from orchestrator.runs.run_record import SCRIPT, Run

LAUNCHERS: dict[str, Callable[[Run, Slots], Plan]] = {
    "horovod": horovod.plan,
    "torchrun": torchrun.plan,
    "mpirun": mpirun.plan,
    "ray": ray.plan,
    "tensorflow": tensorflow.plan,
    "plain": plain.plan,
}


def files(cluster: Cluster, run: Run) -> dict[str, str]:
    """Return the contents of the run's files for the nodes, by name in its directory.

    Prints a note if processes of a user's script may use the same GPU.
    """
    slots = ranks_by_host(cluster, run.np)
    plan = LAUNCHERS[run.launcher](run, slots)
    gpus = {node.private_address: node.gpus for node in cluster.rank_nodes.values()}
    launch = launch_layout.Layout(
        slots=dict(plan.slots or slots),
        ranks=plan.ranks,
        roles=plan.roles,
        interface=run.interface,
        threads=run.threads,
        start_seconds=run.start_seconds,
        processes=plan.processes,
        gpus=gpus if plan.divides_gpus and cluster.on_gpus else None,
    )
    for note in _notes_on_gpus(cluster, run, launch) if run.kind == SCRIPT else ():
        progress.note(note)
    return {
        "hostfile": hostfile.text(cluster, run.np),
        launch_layout.FILE: launch.text(),
        "command.json": json.dumps(plan.command) + "\n",
        "program.json": json.dumps(run.command) + "\n",
    }


def _notes_on_gpus(cluster: Cluster, run: Run, launch: launch_layout.Layout) -> Iterator[str]:
    """Yield a note if ranks of a node share a GPU, and one if each must choose its own."""
    ranks = Counter(launch.ranks[rank] for rank in launch.with_role(launch_layout.WORKER))
    with_gpus = {name: node for name, node in cluster.nodes.items() if node.gpus}
    crowded = {name: node for name, node in with_gpus.items() if ranks[node.private_address] > node.gpus}
    if crowded:
        name, node = next(iter(crowded.items()))
        shared = f"{ranks[node.private_address]} ranks of {name} share {node.gpus} GPUs"
        yield f"{shared}, which NCCL refuses: deploy without slots, or with fewer"
    if run.launcher == "plain" and any(ranks[node.private_address] > 1 for node in with_gpus.values()):
        yield (
            f"each of the {run.np} processes sees all GPUs of its node: a script for one GPU uses the first in every"
            " process; start it with --np 1, or let it set CUDA_VISIBLE_DEVICES to LOCAL_RANK before it uses a GPU"
        )
