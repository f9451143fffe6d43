"""Choose which files of a run's directory to fetch, and limit their sizes: the head may be compromised."""

import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from orchestrator import progress
from orchestrator.errors import ContractError, StateError
from orchestrator.runs import optional_files
from orchestrator.runs.run_record import Run
from orchestrator.schema import FileName
from orchestrator.ssh import Session
from orchestrator.ssh.unpack_tar import DEEPEST, LONGEST, MOST_FILES

LOG, OUTPUT = "log", "output/"
LOG_BYTES = 256 << 20  # only the end of a longer log is fetched
FILE_BYTES = 16 << 20  # of every other named file
GROWN_BYTES = 256 << 20  # an active run may write as much between listing and copying
FREE_BYTES = 256 << 20  # to leave free on this machine's disk
OTHER_FILES = 1000  # of a run, besides its output: more than any has
# Number of files and directories below a directory, deepest level, and bytes of the longest name.
SURVEY = (
    r"""cd "$1" && find . -mindepth 1 -printf '%d %P\0' | tr '\n\0' ' \n' | LC_ALL=C awk '"""
    "{ size = length($0) - length($1) - 1; if (size > longest) longest = size; if ($1 > deepest) deepest = $1 }"
    " END { print NR, deepest + 0, longest + 0 }'"
)


def run_ids(names: Sequence[str], head: Session) -> list[str]:
    """Validate the run ids that the head lists. Raises ContractError if one is not a valid id."""
    try:
        return TypeAdapter(list[FileName]).validate_python(list(names))
    except ValidationError as error:
        raise ContractError(f"{head.node} lists runs with names that no run has: {error}") from error


def sizes(head: Session, run: Run, files: Sequence[str], trees: Sequence[str]) -> dict[str, int]:
    """Get the sizes of the files that exist on the head.

    Args:
        head: Session on the head.
        run: Run whose directory is listed.
        files: Names of files.
        trees: Names of directories, each with a slash at the end.

    Returns:
        Bytes by name of the files and directories that exist.

    Raises:
        CommandFailed: The head cannot list the files.
        ContractError: The head lists other files.
    """
    names = {f"{run.directory}/{name}": name for name in (*files, *trees)}
    argv = ["find", *names, "-type", "f", "-printf", r"%s %H\n"]
    answer = optional_files.run_on(head, f"list the files of run {run.id}", argv)
    sizes_by_file = Counter[str]()
    try:
        for line in answer.output.splitlines():
            size, path = line.split(" ", 1)
            sizes_by_file[names[path]] += _size(size)
    except (KeyError, ValueError) as error:
        raise ContractError(
            f"{head.node} lists files of run {run.id} that were not requested: {line[:200]!r}"
        ) from error
    return dict(sizes_by_file)


def _size(text: str) -> int:
    """Return a number of bytes. Raises ValueError for a negative one, which would hide others in a sum."""
    if not (text.isascii() and text.isdigit()):
        raise ValueError(text)
    return int(text)


def excess(head: Session, run: Run) -> str:
    """Return what a run's output has too much of to be fetched, in words; "" if it can be, or is missing.

    Raises:
        ContractError: The head sends something else.
    """
    answer = head.run(["sh", "-c", SURVEY, "sh", f"{run.directory}/{OUTPUT}"])
    if answer.exit_code:
        return ""
    try:
        files, deepest, longest = map(int, answer.output.split())
    except ValueError as error:
        raise ContractError(f"{head.node} sends no numbers of files in {OUTPUT}: {answer.output[:200]!r}") from error
    found = [
        ("files and directories", files, MOST_FILES - OTHER_FILES),
        ("levels of directories", deepest, DEEPEST - 1),
        ("bytes in a name", longest, LONGEST - len(OUTPUT)),
    ]
    too_much = [f"{value:,} {what}, at most {most:,} are fetched" for what, value, most in found if value > most]
    return f"it has {', '.join(too_much)}" if too_much else ""


def fetch(head: Session, run: Run, listed: dict[str, int], target: Path) -> None:
    """Copy the files found by :func:`sizes` and report what is left out.

    Args:
        head: Session on the head.
        run: Run whose files are copied.
        listed: Bytes by name, as returned by :func:`sizes`.
        target: Empty local directory.

    Raises:
        StateError: The files do not fit on this machine.
        ContractError: The head sends something else.
    """
    _require_space(run, sum(listed.values()) - max(0, listed.get(LOG, 0) - LOG_BYTES), target)
    limits = {name: _limit(name, size) for name, size in listed.items()}
    if listed.get(LOG, 0) > LOG_BYTES:
        _fetch_end_of_log(head, run, limits.pop(LOG), target)
        cut = f"the last {LOG_BYTES >> 20} of {listed[LOG] >> 20} MiB"
        progress.note(f"run {run.id}: its log is long: {cut} were fetched, {run.directory}/log has all")
    left_out = head.fetch(run.directory, limits, target) if limits else []
    if left_out:
        first = ", ".join(left_out[:3])
        progress.note(f"run {run.id}: {len(left_out)} links, special or unreadable files were not fetched: {first}")


def _limit(name: str, size: int) -> int:
    if name.endswith("/"):
        return size + GROWN_BYTES
    return LOG_BYTES + GROWN_BYTES if name == LOG else FILE_BYTES


def _require_space(run: Run, size: int, target: Path) -> None:
    free = shutil.disk_usage(target).free
    if size + FREE_BYTES > free:
        what = f"run {run.id} left {size / 2**30:.1f} GiB, and {target.parent} has {free / 2**30:.1f} GiB free"
        raise StateError(what, f"free space on this machine, or remove files in {run.directory}/output on the head")


def _fetch_end_of_log(head: Session, run: Run, most: int, target: Path) -> None:
    with (target / LOG).open("xb") as file:
        for piece in head.follow(["tail", f"--bytes={LOG_BYTES}", f"{run.directory}/{LOG}"]):
            most -= len(piece)
            if most < 0:
                raise ContractError(f"{head.node} sends a log of run {run.id} without end")
            file.write(piece)
