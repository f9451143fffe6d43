"""Launches that the head makes one after another, while this machine may be off."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator import progress, state
from orchestrator.errors import StateError, command
from orchestrator.runs import collected_files, control, queues, store
from orchestrator.runs.run_record import Run
from orchestrator.schema.studies import Launch
from orchestrator.studies import journal
from orchestrator.studies.cell_launch import Launcher
from orchestrator.studies.journal import Queued, Started
from orchestrator.studies.launch_schedule import Planned

ENDED = ("finished", "failed", "stopped")


@dataclass(frozen=True)
class Progress:
    """Progress of the launches that the head makes.

    Attributes:
        queue: Id of the queue.
        cluster: Name of its cluster.
        state: State of the queue, as of a run.
        ended: Launches whose runs have ended.
        launches: All launches of the queue.
    """

    queue: str
    cluster: str
    state: str
    ended: int
    launches: int

    def __str__(self) -> str:
        return f"{self.queue} on the head: {self.state}, {self.ended} of {self.launches} launches ended"


def counted(launches: int) -> str:
    """Return a number of launches in words."""
    return f"{launches} launch{'es' * (launches != 1)}"


def enqueue(launcher: Launcher, order: Sequence[Planned]) -> Progress:
    """Prepare launches, and start a queue on the head that makes them.

    A kill at any instant leaves all launches to the head, or none.

    Args:
        launcher: Launches of the study.
        order: The launches, in this order.

    Returns:
        The queue.

    Raises:
        NodesFailed, StateError: The cluster cannot run anything now.
    """
    queue, begun = queues.plan(launcher.cluster), list[str]()
    with queues.removed_if_it_fails(launcher.state_dir, launcher.cluster, begun):
        prepared = _prepare(launcher, order, queue.id, begun)
        launches = [started for started, _ in prepared]
        launcher.journal.enqueue(Queued(cluster=launcher.config.name, run=queue.id, launches=launches))
        queues.start(launcher.state_dir, launcher.cluster, queue, [run for _, run in prepared])
    return Progress(queue.id, launcher.config.name, "running", 0, len(prepared))


def _prepare(launcher: Launcher, order: Sequence[Planned], queue: str, begun: list[str]) -> list[tuple[Started, Run]]:
    """Prepare launches, add the id of each run to ``begun`` before it has files, and return those that can start."""
    started, runs = dict[str, Started](), list[Run]()

    def begin(launch: Started) -> None:
        begun.append(launch.run)
        started[launch.run] = launch

    with progress.step(f"Preparing {counted(len(order))}") as step:
        for planned in order:
            run = launcher.start(planned, begin, queue=queue)
            runs += [run] if isinstance(run, Run) else []
            step.detail(f"{len(runs)} of {len(order)}")
    if not runs:
        shows = journal.status_command(launcher.journal.directory)
        raise StateError(f"{launcher.journal.directory}: no launch can start", f"{shows} shows the study")
    return [(started[run.id], run) for run in runs]


def collect(launcher: Launcher) -> Iterator[Launch]:
    """Yield the launches that the head made and still makes, each once it has ended and is in the journal.

    Launches that a stopped or killed queue did not make are forgotten: the study makes them later.

    Raises:
        NodesFailed: The head does not answer, or processes of a killed queue may be left on a node.
    """
    queued = launcher.journal.queued
    if queued is None:
        return
    records = {run.id: run for run in store.list_runs(launcher.state_dir)}
    queue, recorded = records.get(queued.run), {launch.run for launch in launcher.journal.launches}
    if queue and not launcher.is_lost(queue):
        progress.note(f"collecting {counted(len(queued.launches))} of {queue.id} on the head")
    for started in queued.launches:
        run = records.get(started.run)
        if run is None or run.id in recorded:
            continue
        if control.await_end(launcher.state_dir, launcher.cluster, run).state == "lost":
            _forget(launcher, run)
        else:
            yield launcher.record_end(started, run)
    if queue:
        control.await_end(launcher.state_dir, launcher.cluster, queue)
        with control.head_session(launcher.state_dir, launcher.cluster) as head:
            collected_files.collect(launcher.state_dir, head, queue)
    launcher.journal.dequeue()


def _forget(launcher: Launcher, run: Run) -> None:
    """Remove a run that its queue did not start; end the processes of one that the queue did not finish."""
    with control.head_session(launcher.state_dir, launcher.cluster) as head:
        if head.run(["test", "-e", f"{run.directory}/{store.TURN}"]).exit_code:
            head.run(["rm", "-rf", run.directory])
            return store.remove(launcher.state_dir, run.id)
    control.sweep(launcher.state_dir, launcher.cluster, run)


def read_progress(directory: Path) -> Progress | None:
    """Return how far the head is with the launches of a study; None if it makes none.

    Args:
        directory: Directory of the study.

    Raises:
        StateError: A file of the study is damaged.
    """
    queued = journal.read_queued(directory)
    if queued is None:
        return None
    state_dir = state.for_cluster(queued.cluster)
    record, names = state.read(state_dir), {queued.run, *(started.run for started in queued.launches)}
    runs = [run for run in store.list_runs(state_dir) if run.id in names]
    overview = control.overview(state_dir, record.cluster if record else None, runs)
    states = {run_state.run.id: run_state.state for run_state in overview}
    ended = sum(states.get(started.run) in ENDED for started in queued.launches)
    return Progress(queued.run, queued.cluster, states.get(queued.run, "lost"), ended, len(queued.launches))


def require_none(directory: Path) -> None:
    """Check that the head makes no launches of a study now. Raises StateError."""
    current = read_progress(directory)
    if current and current.state in (*control.ACTIVE, "unknown"):
        remedy = f"wait for it, or {command(f'stop {current.queue}', current.cluster)}"
        raise StateError(f"{directory}: {current}", remedy)
