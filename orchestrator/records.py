"""What this side remembers of runs, and keeps of them: one directory per run in the state directory."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from orchestrator import fetching, lock, state
from orchestrator.config import nearest
from orchestrator.errors import StateError, command
from orchestrator.launch import AUTOTUNED, Run
from orchestrator.schema import Checkpoints, RunStatus, bounded
from orchestrator.schema.bounded import Unreadable, shown
from orchestrator.ssh import Session
from orchestrator.state import Home

WAIT_SECONDS = 3600.0
STATUS, INDEX, OUTPUT = "status.json", "checkpoints/index.json", "output/"
FILES = (
    *("config.json", "hostfile", fetching.LOG, AUTOTUNED),
    *("results.json", "results.csv", "hello.json", "prepared.json", "staged.json"),
)
COLLECTING, REPLACED = ".collecting-", ".replaced-"


def remember(place: Home, run: Run) -> None:
    """Write a run down, before it is started."""
    state.replace(place.runs / run.id / "run.json", run.model_dump_json(indent=2) + "\n")


def collect(place: Home, head: Session, run: Run, seconds: float = WAIT_SECONDS) -> Path:
    """Copy the files of a run (results, log, its newest checkpoint and its best) into the directory of its record.

    A command that is killed leaves each file or directory as it was, or as it is now. The run's status comes last: if
    it is here, everything is.

    Args:
        place: The cluster's state directory.
        head: Somebody else may control it.
        run: May still be going on.
        seconds: How long to wait for another command that fetches the same run.

    Returns:
        The directory.

    Raises:
        StateError: Another command fetches it, or it does not fit on this machine.
        ContractError: The head sends something else.
    """
    target = place.runs / run.id
    points = _newest_and_best(head, run)
    sizes = fetching.sizes(
        head, run, [*FILES, STATUS], [OUTPUT, *(f"checkpoints/{point.name}/" for point in points.kept)]
    )
    if not sizes:  # it was another deployment's
        return target
    with _fetching(target, seconds) as temporary:
        fetching.fetch(head, run, sizes, temporary)
        if points.kept:
            points.write(temporary / INDEX)
        for path in sorted(temporary.iterdir(), key=lambda path: path.name == STATUS):
            _replace(path, target / path.name)
    return target


@contextmanager
def _fetching(target: Path, seconds: float) -> Iterator[Path]:
    """A directory for files on their way to ``target``: one command at a time puts them there."""
    with lock.waited(target / ".lock", "fetches this run", seconds):
        _recover(target)
        try:
            with TemporaryDirectory(dir=target, prefix=COLLECTING) as temporary:
                yield Path(temporary)
        finally:
            _recover(target)


def _replace(new: Path, target: Path) -> None:
    """Put a file or a directory in the place of another; a directory that is replaced stays until the new one is."""
    if target.is_dir():
        target.rename(target.with_name(f"{REPLACED}{target.name}"))
    new.replace(target)
    shutil.rmtree(target.with_name(f"{REPLACED}{target.name}"), ignore_errors=True)


def _recover(target: Path) -> None:
    """Undo what a killed command had begun in ``target``, whose lock is held."""
    for old in target.glob(f"{REPLACED}*"):
        current = old.with_name(old.name.removeprefix(REPLACED))
        if current.exists():
            shutil.rmtree(old, ignore_errors=True)
        else:
            old.rename(current)
    for left in target.glob(f"{COLLECTING}*"):
        shutil.rmtree(left, ignore_errors=True)


def _settle(target: Path) -> None:
    """Recover ``target`` if a killed command left it half replaced."""
    if any(target.glob(f"{REPLACED}*")):
        with _fetching(target, WAIT_SECONDS):
            pass


def _newest_and_best(head: Session, run: Run) -> Checkpoints:
    """Those of its checkpoints on the cluster."""
    index = checkpoints_there(head, run) or Checkpoints()
    return index.model_copy(update={"kept": [p for p in index.kept if p in index.kept[-1:] or p.name == index.best]})


def checkpoints_there(head: Session, run: Run) -> Checkpoints | None:
    """The checkpoints that the cluster has of ``run``; None where it has none."""
    index = head.run(["cat", f"{run.directory}/{INDEX}"])
    return fetching.parsed(Checkpoints, index.output, head, INDEX) if index.exit_code == 0 else None


def is_resumable(place: Home, run: Run) -> bool:
    """Whether a checkpoint came with what was collected."""
    _settle(place.runs / run.id)
    return (place.runs / run.id / INDEX).is_file()


def give_back(place: Home, head: Session, run: Run) -> None:
    """Send what a run can go on from, and was collected, to a cluster that has it not. The index makes it count."""
    here = place.runs / run.id
    _settle(here)
    points = sorted(path for path in (here / "checkpoints").glob("*/*") if path.is_file())
    files = {str(path.relative_to(here)): path for path in [here / "config.json", *points, here / INDEX]}
    head.must("make the run's directory", ["mkdir", "-p", run.directory])
    head.send(files, run.directory)


def is_collected(place: Home, run: Run) -> bool:
    """Whether what the run left is here: its status comes with it, and only once it has ended."""
    return status(place, run) is not None


def known(place: Home) -> list[Run]:
    """Every run of this cluster whose record can be read, oldest first; see :func:`damaged` for the others."""
    return sorted((found for found in _read(place) if isinstance(found, Run)), key=lambda run: run.started)


def damaged(place: Home) -> list[str]:
    """What is wrong with each record of a run that cannot be read."""
    return sorted(str(found) for found in _read(place) if isinstance(found, Unreadable))


def _read(place: Home) -> Iterator[Run | Unreadable]:
    for path in place.runs.glob("*/run.json"):
        with suppress(FileNotFoundError):
            try:
                run = bounded.read_model(path, Run)
                same = run.id == path.parent.name
                yield run if same else Unreadable(path, f"is the record of another run, {shown(run.id)}")
            except Unreadable as error:
                yield error


def get(place: Home, name: str | None) -> Run:
    """The run called ``name``, or the newest. Raises StateError where there is none."""
    everything = known(place)
    for problem in damaged(place) if name or not everything else ():
        if not everything or problem.startswith(f"{place.runs / str(name)}/"):
            raise StateError(problem, "restore it from a copy, or remove that directory")
    if not everything:
        remedy = f"{command('train resnet20 --dataset mnist', place.name)} makes one"
        raise StateError(f"cluster {place.name!r} has no runs yet", remedy)
    if name is None:
        return everything[-1]
    ids = [run.id for run in everything]
    if name not in ids:
        raise StateError(f"no run {shown(name)}{nearest(name, ids)}", f"{command('runs', place.name)} lists them")
    return everything[ids.index(name)]


def status(place: Home, run: Run) -> RunStatus | None:
    """How a run ended, where that was fetched."""
    with suppress(FileNotFoundError, Unreadable):
        return bounded.read_model(place.runs / run.id / STATUS, RunStatus)
    return None
