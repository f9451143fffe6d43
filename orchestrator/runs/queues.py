"""Queues: runs that the head starts one after another, while this machine may be off. A queue is a run itself."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from orchestrator import providers, state
from orchestrator.cluster import PYTHON, Cluster, ranks_by_host
from orchestrator.config import Launch
from orchestrator.errors import OrchestratorError
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


@contextmanager
def removed_if_it_fails(state_dir: StateDir, cluster: Cluster, prepared: Sequence[str]) -> Iterator[None]:
    """Remove the files of runs if the context ends before :func:`start` records them: no command would list them.

    Args:
        state_dir: State directory of the cluster.
        cluster: Deployed cluster.
        prepared: Ids of the runs, to which the context adds each before it has files.
    """
    try:
        yield
    except BaseException:
        recorded = {run.id for run in store.list_runs(state_dir)}
        _remove(state_dir, cluster, [run for run in prepared if run not in recorded])
        raise


def _remove(state_dir: StateDir, cluster: Cluster, runs: Sequence[str]) -> None:
    for run in runs:
        store.remove(state_dir, run)
    if runs:
        with suppress(OrchestratorError), control.head_session(state_dir, cluster) as head:
            head.run(["rm", "-rf", *map(run_record.directory, runs)])


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
