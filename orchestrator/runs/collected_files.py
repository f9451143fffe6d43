"""Files of runs on their way from the head to the directories of their records, and checkpoints on their way back."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from orchestrator import progress
from orchestrator.cluster import Cluster
from orchestrator.errors import command
from orchestrator.runs import control, fetch_limits, optional_files, user_variables
from orchestrator.runs.fetch_limits import OUTPUT
from orchestrator.runs.launchers.horovod import AUTOTUNED
from orchestrator.runs.run_record import Run
from orchestrator.runs.store import STATUS, TURN, is_collected
from orchestrator.schema import Checkpoints
from orchestrator.ssh import Session, parsed
from orchestrator.state import StateDir, cluster_lock

WAIT_SECONDS = 3600.0
INDEX = "checkpoints/index.json"
FILES = ("hostfile", "packages.json", fetch_limits.LOG, AUTOTUNED, TURN)
# A script may write files of these names in another form.
TRAINER_FILES = (
    *("config.json", "results.json", "results.csv"),
    *("profile.json", "check.json", "prepared.json", "staged.json"),
)
COLLECTING, REPLACED = ".collecting-", ".replaced-"


class Collected(NamedTuple):
    """Directory of a run's fetched files, and why its output/ is not among them; empty if it is, or is missing."""

    directory: Path
    excess: str


def collect(
    state_dir: StateDir,
    head: Session,
    run: Run,
    seconds: float = WAIT_SECONDS,
    checkpoints: bool = True,
    active: bool = False,
) -> Collected:
    """Copy the results, log, newest checkpoint and best checkpoint of a run into the directory of its record.

    A command that is killed leaves each file or directory either old or new. The status is written last: if it is here,
    everything is.

    Args:
        state_dir: State directory of the cluster.
        head: Session on the head, which may be compromised.
        run: Run, possibly still active.
        seconds: Seconds to wait for another command that fetches the same run.
        checkpoints: Whether checkpoints are fetched.
        active: Whether the run was active just before. Its checkpoints, which the trainer replaces meanwhile, and its
            status are left for a later call.

    Returns:
        The local directory of the run, and why its output/ was left out.

    Raises:
        StateError: Another command is fetching the run, or the files do not fit on this machine.
        CommandFailed: The head cannot list or send the files.
        ContractError: The head sends something else.
    """
    target = state_dir.runs / run.id
    user_variables.remove(head, [run])
    before = is_collected(state_dir, run)
    # Looked for first: a run that ends meanwhile is fetched as one that is active, without its last checkpoint.
    ended = not active and head.run(["test", "-e", f"{run.directory}/{STATUS}"]).exit_code == 0
    trained = not run.is_script
    points = _needed_later(head, run) if trained and checkpoints and not active else Checkpoints()
    excess = fetch_limits.excess(head, run)
    trees = [*([] if excess else [OUTPUT]), *(f"checkpoints/{point.name}/" for point in points.entries)]
    files = [*FILES, *(TRAINER_FILES if trained else []), *([STATUS] if ended else [])]
    sizes = fetch_limits.sizes(head, run, files, trees)
    if not sizes:  # the run belongs to an earlier deployment
        return Collected(target, excess)
    with _fetching(target, seconds) as temporary:
        if not before and is_collected(state_dir, run):  # by the command that held the lock
            return Collected(target, excess)
        fetch_limits.fetch(head, run, sizes, temporary)
        if points.entries:
            points.write(temporary / INDEX)
        for path in sorted(temporary.iterdir(), key=lambda path: path.name == STATUS):
            _replace(path, target / path.name)
    if excess:
        progress.note(f"run {run.id}: {OUTPUT} was not fetched: {excess}: {_packing(run, state_dir.name)}")
    return Collected(target, excess)


def collect_missing(state_dir: StateDir, cluster: Cluster, run: Run) -> None:
    """Collect a run that is not collected yet; of a run in progress, the files that it has written so far.

    Args:
        state_dir: State directory of the cluster.
        cluster: Deployed cluster.
        run: Run in any state.

    Raises:
        NodesFailed: The head does not answer.
        OrchestratorError: As for :func:`collect`.
    """
    if is_collected(state_dir, run):
        return
    with control.head_session(state_dir, cluster) as head:
        active = control.get_state(state_dir, head, run).state in control.ACTIVE
        collect(state_dir, head, run, active=active)


@contextmanager
def _fetching(target: Path, seconds: float) -> Iterator[Path]:
    """Create a temporary directory for files on their way to ``target``, and lock ``target`` against other commands."""
    with cluster_lock.waited(target / ".lock", "fetches this run", seconds):
        _recover(target)
        try:
            with TemporaryDirectory(dir=target, prefix=COLLECTING) as temporary:
                yield Path(temporary)
        finally:
            _recover(target)


def _replace(new: Path, target: Path) -> None:
    """Replace a file or a directory; an old directory is kept until the new one is in place."""
    if target.is_dir():
        target.rename(target.with_name(f"{REPLACED}{target.name}"))
    new.replace(target)
    shutil.rmtree(target.with_name(f"{REPLACED}{target.name}"), ignore_errors=True)


def _recover(target: Path) -> None:
    """Undo unfinished work of a killed command in ``target``, whose lock is held."""
    for old in target.glob(f"{REPLACED}*"):
        current = old.with_name(old.name.removeprefix(REPLACED))
        if current.exists():
            shutil.rmtree(old, ignore_errors=True)
        else:
            old.rename(current)
    for unfinished in target.glob(f"{COLLECTING}*"):
        shutil.rmtree(unfinished, ignore_errors=True)


def _settle(target: Path) -> None:
    """Recover ``target`` if a killed command left it half replaced."""
    if any(target.glob(f"{REPLACED}*")):
        with _fetching(target, WAIT_SECONDS):
            pass


def _packing(run: Run, cluster: str) -> str:
    """Return the commands that bring files of a run here that are too many to be fetched."""
    pack = f"`tar -cf {run.directory}/output.tar -C {run.directory} {OUTPUT}`"
    copy = command(f"cp head:{run.directory}/output.tar .", cluster)
    return f"on the head ({command('ssh', cluster)}) {pack} makes one file of them, then {copy} copies it"


def _needed_later(head: Session, run: Run) -> Checkpoints:
    """Return the index of the checkpoints that are fetched: the newest, the newest of a whole epoch, and the best."""
    index = checkpoints_on_cluster(head, run) or Checkpoints()
    kept = [*index.entries[-1:], index.newest_whole]
    entries = [point for point in index.entries if point in kept or point.name == index.best]
    return index.model_copy(update={"entries": entries})


def checkpoints_on_cluster(head: Session, run: Run) -> Checkpoints | None:
    """Return the index of the checkpoints of ``run`` on the cluster; None if there is none.

    Raises:
        CommandFailed: The head cannot read it.
        ContractError: It is damaged.
    """
    step = f"read the index of checkpoints of run {run.id}"
    index = optional_files.run_on(head, step, ["cat", f"{run.directory}/{INDEX}"])
    return parsed(Checkpoints, index.output, head, INDEX) if index.exit_code == 0 else None


def is_resumable(state_dir: StateDir, run: Run) -> bool:
    """Tell whether a checkpoint was collected."""
    _settle(state_dir.runs / run.id)
    return (state_dir.runs / run.id / INDEX).is_file()


def how_to_resume(state_dir: StateDir, run: Run) -> str:
    """Return the command that resumes a run, for a hint; empty if no checkpoint was collected."""
    again = command(f"train --resume {run.id}", state_dir.name)
    return f"{again} continues from its newest checkpoint" if is_resumable(state_dir, run) else ""


def upload_checkpoint(state_dir: StateDir, head: Session, run: Run) -> None:
    """Upload collected checkpoints to a cluster without them; the index is sent last and makes them valid.

    It is sent on its own, since tar continues after a file that it cannot write, as on a full disk.

    Args:
        state_dir: State directory of the cluster.
        head: Session on the head.
        run: Collected training run.

    Raises:
        CommandFailed: The head cannot store the files.
        ConfigError: A local file cannot be read.
    """
    directory = state_dir.runs / run.id
    _settle(directory)
    points = sorted(path for path in (directory / "checkpoints").glob("*/*") if path.is_file())
    files = {str(path.relative_to(directory)): path for path in [directory / "config.json", *points]}
    unfinished, index = f"{INDEX}.part", f"{run.directory}/{INDEX}"
    head.must("make the run's directory", ["mkdir", "-p", run.directory])
    head.send(files, run.directory)
    head.send({unfinished: directory / INDEX}, run.directory)
    head.must("store the index of checkpoints", ["mv", f"{run.directory}/{unfinished}", index])
