"""Launchers: how the ranks of a run start. Each is a module with one pure function, ``plan``."""

import json
from collections.abc import Callable

from orchestrator import launch_layout
from orchestrator.cluster import Cluster, ranks_by_host
from orchestrator.runs.launchers import horovod, hostfile, mpirun, plain, ray, tensorflow, torchrun
from orchestrator.runs.launchers.launch_plan import Plan, Slots
from orchestrator.runs.run_record import Run

LAUNCHERS: dict[str, Callable[[Run, Slots], Plan]] = {
    "horovod": horovod.plan,
    "torchrun": torchrun.plan,
    "mpirun": mpirun.plan,
    "ray": ray.plan,
    "tensorflow": tensorflow.plan,
    "plain": plain.plan,
}


def files(cluster: Cluster, run: Run) -> dict[str, str]:
    """Return the contents of the run's files for the nodes, by name in its directory."""
    slots = ranks_by_host(cluster, run.np)
    plan = LAUNCHERS[run.launcher](run, slots)
    launch = launch_layout.Layout(
        slots=dict(plan.slots or slots),
        ranks=plan.ranks,
        roles=plan.roles,
        interface=run.interface,
        threads=run.threads,
        start_seconds=run.start_seconds,
        processes=plan.processes,
    )
    return {
        "hostfile": hostfile.text(cluster, run.np),
        launch_layout.FILE: launch.text(),
        "command.json": json.dumps(plan.command) + "\n",
        "program.json": json.dumps(run.command) + "\n",
    }
