"""Queues: runs that the head starts one after another, while this machine may be off. A queue is a run itself."""

import time
from collections.abc import Sequence

from orchestrator import providers, state
from orchestrator.cluster import PYTHON, Cluster, ranks_by_host
from orchestrator.config import Launch
from orchestrator.runs import control, run_record, store
from orchestrator.runs.control import NodeResources
from orchestrator.runs.run_record import Run
from orchestrator.schema import Queue, QueuedRun
from orchestrator.state import StateDir, cluster_lock

FILE = "queue.json"


def plan(cluster: Cluster) -> Run:
    """Describe a queue, whose id its runs need."""
    queue = control.plan(cluster, Launch(np=1), run_record.QUEUE, NodeResources("", 0))
    program = [PYTHON, "-m", "orchestrator.trainer.supervision.start_queued_runs", queue.directory]
    return queue.model_copy(update={"command": program})


def start(state_dir: StateDir, cluster: Cluster, queue: Run, runs: Sequence[Run]) -> None:
    """Start a queue on the head.

    Args:
        state_dir: State directory of the cluster.
        cluster: Deployed cluster.
        queue: The queue, as planned.
        runs: Its runs, whose files are on the head.

    Raises:
        NodesFailed: The head does not answer.
        StateError: Another run is active or starting.
    """
    record, _ = state.deployed(state_dir)
    shared = providers.of_one_machine(record)
    queued = [
        QueuedRun(
            directory=run.directory,
            workdir=run.workdir,
            environment=run_record.environment(run),
            hosts=[] if shared else list(ranks_by_host(cluster, run.np)),
        )
        for run in runs
    ]
    queue = queue.model_copy(update={"started": time.time()})  # after its runs
    with cluster_lock.starting(state_dir), control.head_session(state_dir, cluster) as head:
        for run in runs:
            store.save(state_dir, run)
        control.start(state_dir, cluster, head, queue, {}, {FILE: Queue(runs=queued).model_dump_json(indent=2) + "\n"})
