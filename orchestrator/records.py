"""What this side remembers of runs, and keeps of them: one directory per run in the state directory."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import ValidationError

from orchestrator import lock, state
from orchestrator.config import nearest
from orchestrator.errors import StateError, command
from orchestrator.launch import AUTOTUNED, Run
from orchestrator.schema import Checkpoints, RunStatus
from orchestrator.ssh import Session
from orchestrator.state import Home

WAIT_SECONDS = 3600.0
STATUS, INDEX = "status.json", "checkpoints/index.json"
COLLECTED = (
    *("config.json", "hostfile", "log", "output", AUTOTUNED),
    *("results.json", "results.csv", "hello.json", "prepared.json", "staged.json"),
)


def remember(place: Home, run: Run) -> None:
    """Write a run down, before it is started."""
    state.replace(place.runs / run.id / "run.json", run.model_dump_json(indent=2) + "\n")


def collect(place: Home, head: Session, run: Run, seconds: float = WAIT_SECONDS) -> Path:
    """Copy what the run left (results, log, its newest checkpoint and its best) beside its record; returns where to.

    Its status comes last: where it is here, everything is. Another command that fetches it is waited for so many
    ``seconds``; raises StateError after that.
    """
    target = place.runs / run.id
    there = head.run(["ls", "-A", run.directory]).output.splitlines()
    points = _newest_and_best(head, run)
    names = [name for name in COLLECTED if name in there] + [f"checkpoints/{point.name}" for point in points.kept]
    if not names:  # it was another deployment's
        return target
    with _fetching(target, seconds) as temporary:
        head.fetch(run.directory, [*names, *([STATUS] if STATUS in there else [])], temporary)
        if points.kept:
            points.write(temporary / INDEX)
        for path in sorted(temporary.iterdir(), key=lambda path: path.name == STATUS):
            if path.is_dir():
                shutil.rmtree(target / path.name, ignore_errors=True)
            path.replace(target / path.name)
    return target


@contextmanager
def _fetching(target: Path, seconds: float) -> Iterator[Path]:
    """A directory for what is on its way to ``target``: one command at a time puts it there."""
    with lock.waited(target / ".lock", "fetches this run", seconds):
        for left in target.glob(".collecting-*"):  # by a command that was killed
            shutil.rmtree(left, ignore_errors=True)
        with TemporaryDirectory(dir=target, prefix=".collecting-") as temporary:
            yield Path(temporary)


def _newest_and_best(head: Session, run: Run) -> Checkpoints:
    """Those of its checkpoints on the cluster."""
    index = checkpoints_there(head, run) or Checkpoints()
    return index.model_copy(update={"kept": [p for p in index.kept if p in index.kept[-1:] or p.name == index.best]})


def checkpoints_there(head: Session, run: Run) -> Checkpoints | None:
    """The checkpoints that the cluster has of ``run``; None where it has none."""
    index = head.run(["cat", f"{run.directory}/{INDEX}"])
    return Checkpoints.model_validate_json(index.output) if index.exit_code == 0 else None


def is_resumable(place: Home, run: Run) -> bool:
    """Whether a checkpoint came with what was collected."""
    return (place.runs / run.id / INDEX).is_file()


def give_back(place: Home, head: Session, run: Run) -> None:
    """Send what a run can go on from, and was collected, to a cluster that has it not. The index makes it count."""
    here = place.runs / run.id
    points = sorted(path for path in (here / "checkpoints").glob("*/*") if path.is_file())
    files = {str(path.relative_to(here)): path for path in [here / "config.json", *points, here / INDEX]}
    head.must("make the run's directory", ["mkdir", "-p", run.directory])
    head.send(files, run.directory)


def is_collected(place: Home, run: Run) -> bool:
    """Whether what the run left is here: its status comes with it, and only once it has ended."""
    return status(place, run) is not None


def known(place: Home) -> list[Run]:
    """Every run of this cluster that is remembered, oldest first; what cannot be read is no record."""
    found = []
    for path in place.runs.glob("*/run.json"):
        with suppress(ValidationError):
            found.append(Run.model_validate_json(path.read_text()))
    return sorted(found, key=lambda run: run.started)


def get(place: Home, name: str | None) -> Run:
    """The run called ``name``, or the newest. Raises StateError where there is none."""
    everything = known(place)
    if not everything:
        remedy = f"{command('train resnet20 --dataset mnist', place.name)} makes one"
        raise StateError(f"cluster {place.name!r} has no runs yet", remedy)
    if name is None:
        return everything[-1]
    ids = [run.id for run in everything]
    if name not in ids:
        raise StateError(f"no run {name!r}{nearest(name, ids)}", f"{command('runs', place.name)} lists them")
    return everything[ids.index(name)]


def status(place: Home, run: Run) -> RunStatus | None:
    """How a run ended, where that was fetched."""
    with suppress(FileNotFoundError, ValidationError):
        return RunStatus.model_validate_json((place.runs / run.id / STATUS).read_text())
    return None
