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
    return {
        "hostfile": hostfile.text(cluster, run.np),
        launch_layout.FILE: layout(cluster, run).text(),
        "command.json": json.dumps(_plan(cluster, run).command) + "\n",
        "program.json": json.dumps(run.command) + "\n",
    }


def layout(cluster: Cluster, run: Run) -> launch_layout.Layout:
    """Return the ranks and processes of the run on each host."""
    plan = _plan(cluster, run)
    gpus = {node.private_address: node.gpus for node in cluster.rank_nodes.values()}
    return launch_layout.Layout(
        slots=dict(plan.slots or ranks_by_host(cluster, run.np)),
        ranks=plan.ranks,
        roles=plan.roles,
        interface=run.interface,
        threads=run.threads,
        start_seconds=run.start_seconds,
        processes=plan.processes,
        gpus=gpus if plan.divides_gpus and cluster.on_gpus else None,
        trainer=not run.is_script,
    )


def _plan(cluster: Cluster, run: Run) -> Plan:
    return LAUNCHERS[run.launcher](run, ranks_by_host(cluster, run.np))
