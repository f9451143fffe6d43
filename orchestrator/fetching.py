"""Choose which files of a run's directory are fetched, and how much of each: the head may be compromised."""

import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from orchestrator import progress
from orchestrator.errors import ContractError, StateError
from orchestrator.launch import Run
from orchestrator.schema import FileName, bounded
from orchestrator.ssh import Session

Shape = TypeVar("Shape", bound=BaseModel)

LOG = "log"
LOG_BYTES = 256 << 20  # of a log that is longer, its end is fetched
FILE_BYTES = 16 << 20  # of every other file with a name
GROWN_BYTES = 256 << 20  # what a run that goes on may write between two looks
FREE_BYTES = 256 << 20  # to be left on this machine's disk


def parsed(shape: type[Shape], text: str, head: Session, name: str) -> Shape:
    """The ``shape`` that JSON in the file ``name`` on the head holds. Raises ContractError."""
    try:
        return bounded.load_model(text, shape, f"{head.node}: {name}")
    except bounded.Unreadable as error:
        raise ContractError(str(error)) from error


def run_ids(names: Sequence[str], head: Session) -> list[str]:
    """The ``names`` of runs that the head gives. Raises ContractError if one is no run's."""
    try:
        return TypeAdapter(list[FileName]).validate_python(list(names))
    except ValidationError as error:
        raise ContractError(f"{head.node} lists runs with names that no run has: {error}") from error


def sizes(head: Session, run: Run, files: Sequence[str], trees: Sequence[str]) -> dict[str, int]:
    """Bytes on the head by name, of those ``files`` and ``trees`` (with a slash at the end) that exist."""
    names = {f"{run.directory}/{name}": name for name in (*files, *trees)}
    answer = head.run(["find", *names, "-type", "f", "-printf", r"%s %H\n"])
    found = Counter[str]()
    try:
        for line in answer.output.splitlines():
            size, path = line.split(" ", 1)
            found[names[path]] += int(size)
    except (KeyError, ValueError) as error:
        raise ContractError(
            f"{head.node} lists other files of run {run.id} than were asked for: {line[:200]!r}"
        ) from error
    return dict(found)


def fetch(head: Session, run: Run, found: dict[str, int], target: Path) -> None:
    """Copy what :func:`sizes` found into the empty directory ``target``; say what is left out.

    Raises StateError where it does not fit, ContractError where the head sends something else.
    """
    _require_space(run, sum(found.values()), target)
    limits = {name: _limit(name, size) for name, size in found.items()}
    if found.get(LOG, 0) > LOG_BYTES:
        _fetch_end_of_log(head, run, limits.pop(LOG), target)
        cut = f"the last {LOG_BYTES >> 20} of {found[LOG] >> 20} MiB"
        progress.note(f"run {run.id}: its log is long: {cut} were fetched, {run.directory}/log has all")
    left_out = head.fetch(run.directory, limits, target) if limits else []
    if left_out:
        first = ", ".join(left_out[:3])
        progress.note(f"run {run.id}: {len(left_out)} links or special files were not fetched: {first}")


def _limit(name: str, size: int) -> int:
    if name.endswith("/"):
        return size + GROWN_BYTES
    return LOG_BYTES + GROWN_BYTES if name == LOG else FILE_BYTES


def _require_space(run: Run, size: int, target: Path) -> None:
    free = shutil.disk_usage(target).free
    if size + FREE_BYTES > free:
        what = f"run {run.id} left {size / 2**30:.1f} GiB, and {target.parent} has {free / 2**30:.1f} GiB free"
        raise StateError(what, f"make room here, or remove files in {run.directory}/output on the head")


def _fetch_end_of_log(head: Session, run: Run, most: int, target: Path) -> None:
    with (target / LOG).open("xb") as file:
        for piece in head.follow(["tail", f"--bytes={LOG_BYTES}", f"{run.directory}/{LOG}"]):
            most -= len(piece)
            if most < 0:
                raise ContractError(f"{head.node} sends a log of run {run.id} without end")
            file.write(piece)
