"""Records of runs on this machine: one directory per run in the state directory, with the files collected from it."""

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from orchestrator import state
from orchestrator.config import nearest
from orchestrator.errors import StateError, command
from orchestrator.runs.run_record import Run
from orchestrator.schema import RunStatus, bounded_files
from orchestrator.schema.bounded_files import Unreadable, shown
from orchestrator.state import StateDir

STATUS, TURN = "status.json", "turn.json"


def save(state_dir: StateDir, run: Run) -> None:
    """Record a run before it starts."""
    state.replace(state_dir.runs / run.id / "run.json", run.model_dump_json(indent=2) + "\n")


def remove(state_dir: StateDir, run: str) -> None:
    """Remove the record of a run that never started, by its id."""
    shutil.rmtree(state_dir.runs / run, ignore_errors=True)


def is_collected(state_dir: StateDir, run: Run) -> bool:
    """Tell whether the run's files are here: its status is fetched last, and only after the run has ended."""
    return status(state_dir, run) is not None


def list_runs(state_dir: StateDir) -> list[Run]:
    """Return every run of this cluster with a readable record, oldest first; see :func:`damaged` for the others."""
    return sorted((record for record in _read(state_dir) if isinstance(record, Run)), key=lambda run: run.started)


def damaged(state_dir: StateDir) -> dict[str, str]:
    """Return the problem of each unreadable record of a run, by the name of the run's directory."""
    problems = (record for record in _read(state_dir) if isinstance(record, Unreadable))
    return dict(sorted((Path(problem.name).parent.name, str(problem)) for problem in problems))


def _read(state_dir: StateDir) -> Iterator[Run | Unreadable]:
    for directory in _directories(state_dir):
        path = directory / "run.json"
        with suppress(FileNotFoundError):
            try:
                run = bounded_files.read_model(path, Run)
                same = run.id == path.parent.name
                yield run if same else Unreadable(path, f"is the record of another run, {shown(run.id)}")
            except Unreadable as error:
                yield error


def _directories(state_dir: StateDir) -> list[Path]:
    """Return the directories of runs. Unlike ``glob``, it fails if they cannot be listed, and keeps unreadable ones."""
    with state.usable(state_dir.runs), suppress(FileNotFoundError):
        return [path for path in state_dir.runs.iterdir() if path.is_dir()]
    return []


def get(state_dir: StateDir, name: str | None) -> Run:
    """Return the run called ``name``, or the newest. Raises StateError if there is none."""
    everything = list_runs(state_dir)
    for directory, problem in damaged(state_dir).items() if name or not everything else ():
        if not everything or directory == name:
            raise StateError(problem, "restore it from a copy, or remove that directory")
    if not everything:
        others = "" if state_dir.record.exists() else state.deployed_clusters()
        makes = f"{command('train resnet20 --dataset mnist', state_dir.name)} makes one"
        raise StateError(f"cluster {state_dir.name!r} has no runs yet", others or makes)
    if name is None:
        return everything[-1]
    ids = [run.id for run in everything]
    if name not in ids:
        raise StateError(f"no run {shown(name)}{nearest(name, ids)}", f"{command('runs', state_dir.name)} lists them")
    return everything[ids.index(name)]


def status(state_dir: StateDir, run: Run) -> RunStatus | None:
    """Return the fetched final status of a run; None if it was not fetched."""
    return read_status(state_dir.runs / run.id)


def read_status(directory: Path) -> RunStatus | None:
    """Read the status in the directory of a run, whose record may be damaged; None if there is none."""
    with suppress(FileNotFoundError, Unreadable):
        return bounded_files.read_model(directory / STATUS, RunStatus)
    return None
