"""Gather the content of a run's archive: the fetched files, the code of a script, checksums of data, series."""

import io
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from orchestrator import progress
from orchestrator.cluster import Cluster
from orchestrator.errors import ConfigError, OrchestratorError, StateError, command
from orchestrator.monitoring import connection, run_series
from orchestrator.reproduction import citation, exported_run, redaction, run_archive
from orchestrator.reproduction.exported_run import Exported
from orchestrator.runs import check, checksums, control, datasets, source_archive, store
from orchestrator.runs.resumed_run_config import WITHOUT_CHECKPOINTS
from orchestrator.runs.run_record import SCRIPT, Run
from orchestrator.schema import bounded_files
from orchestrator.schema.bounded_files import Unreadable
from orchestrator.state import Record, StateDir

SUMMED = r'cd "$0" && find . -type f -printf "%P\0" | LC_ALL=C sort -z | xargs -0r sha256sum --'
RECORD = "run.json"
ANSWER_SECONDS = 15.0  # until Prometheus answers
FILE_SECONDS = 3600.0  # to sum up one file on the head, without a word meanwhile; a lost connection is noticed anyway


@dataclass(frozen=True)
class Contents:
    """Files by name in the archive, those that can be executed, and those from which secrets were taken."""

    files: dict[str, bytes]
    executable: frozenset[str]
    cleaned: list[str]


def gather(state_dir: StateDir, record: Record | None, run: Run, authors: Sequence[str]) -> Contents:
    """Gather the files of a run that has been fetched.

    Args:
        state_dir: State directory of the cluster.
        record: Record of the cluster; None if it is torn down.
        run: Run to export.
        authors: Names for its citation.

    Returns:
        The contents of its archive, without secrets.

    Raises:
        StateError: The run has not ended.
        ConfigError: A file is damaged, or it is a run of another kind.
    """
    directory = state_dir.runs / run.id
    kind = run.kind.partition("-")[0]
    if kind in WITHOUT_CHECKPOINTS and kind != SCRIPT:
        raise ConfigError([f"run {run.id} is a {kind}: only what `train` and `run` started can be exported"])
    if not store.is_collected(state_dir, run):
        stop = command(f"stop {run.id}", state_dir.name)
        raise StateError(f"run {run.id} has not ended, or its files were lost", f"wait for it, or {stop}")
    run_of_files = exported_run.load(directory)
    files = {name: path.read_bytes() for name, path in _fetched(directory)}
    files |= {checksums.FILE: sums} if (sums := _data(state_dir, record, run_of_files)) else {}
    files |= {check.MEASURED: measured} if (measured := _checked(state_dir, run)) else {}
    code, executable = _code(directory / source_archive.FILE)
    if run.is_script and not code:
        progress.note(f"{run.id}: its code was not kept, so it cannot be repeated from the archive")
    clean, cleaned = redaction.without({**files, **code}, redaction.passwords(record.config if record else {}))
    texts = _texts(replace(run_of_files, run=_without_secrets(clean[RECORD])), authors)
    return Contents({**clean, **texts}, executable, cleaned)


def fetch_series(state_dir: StateDir, record: Record, cluster: Cluster, run: Run) -> None:
    """Fetch the series of a training run that has ended from Prometheus, unless they are here; an error is a note."""
    if run.is_script or not store.is_collected(state_dir, run):  # series that are here are never fetched again
        return
    if run_series.directory(state_dir, run).exists() or not connection.is_enabled(record):
        return
    with (
        progress.log_errors(f"series of {run.id} could not be fetched"),
        progress.step("Fetching its series"),
        connection.connect(state_dir, record, cluster, ANSWER_SECONDS) as (prometheus, _),
    ):
        run_series.save(state_dir, prometheus, run, store.status(state_dir, run))


def _without_secrets(record: bytes) -> Run:
    """Read the record of a run from which secrets were removed. Raises ConfigError if they were part of its keys."""
    try:
        return bounded_files.load_model(record, Run, RECORD)
    except Unreadable as error:
        remedy = "one of them is also a word or number of that file: unset the variable that has it, or change it"
        raise ConfigError([f"{RECORD} cannot be read without the passwords in it: {error.reason}"], remedy) from error


def _texts(run: Exported, authors: Sequence[str]) -> dict[str, bytes]:
    """Return the files for people; their quotes and line breaks would hide a secret in the command of ``run``."""
    return {"README.txt": citation.readme(run).encode(), "CITATION.cff": citation.citation(run, authors).encode()}


def _fetched(directory: Path) -> list[tuple[str, Path]]:
    """Return the files in a run's directory that go into the archive, by name."""
    names = [name for name in run_archive.LIMITS if not name.endswith("/")]
    files = [(name, directory / name) for name in names if name not in (run_archive.SUMS, checksums.FILE)]
    series = sorted((directory / run_archive.SERIES).glob("*.csv"))
    files += [(f"{run_archive.SERIES}{path.name}", path) for path in series]
    return list(_fitting([*files, (exported_run.OUTPUT, directory / exported_run.OUTPUT)]))


def _fitting(files: Iterable[tuple[str, Path]]) -> Iterator[tuple[str, Path]]:
    """Yield the files that exist, as long as the sum of their tree is not too large for an archive."""
    used = Counter[str]()
    for name, path in files:
        if not path.is_file():
            continue
        tree = "".join(name.partition("/")[:2])
        size, most = path.stat().st_size, run_archive.LIMITS[tree]
        if used[tree] + size > most:
            progress.note(f"left out: {name}: an archive has at most {most >> 20} MiB of {tree}")
            continue
        used[tree] += size
        yield name, path


def _code(path: Path) -> tuple[dict[str, bytes], frozenset[str]]:
    """Return the files of the user's script, and the names of those that can be executed.

    Raises:
        ConfigError: Their archive is damaged.
    """
    if not path.is_file():
        return {}, frozenset()
    try:
        content = io.BytesIO(bounded_files.read_bytes(path, run_archive.LIMITS[run_archive.CODE]))
        with tarfile.open(fileobj=content, mode="r:gz") as packed:
            members = [(member, packed.extractfile(member)) for member in packed if member.isreg()]
            files = {f"{run_archive.CODE}{member.name}": file.read() for member, file in members if file}
    except (Unreadable, *run_archive.ODD) as error:
        raise ConfigError(
            [f"{path}: is damaged: {error or 'it is cut short'}"], "restore the file from a copy"
        ) from error
    return files, frozenset(f"{run_archive.CODE}{member.name}" for member, _ in members if member.mode & 0o100)


def _checked(state_dir: StateDir, run: Run) -> bytes | None:
    """Return what the newest check of the cluster measured before ``run`` started."""
    checks = [past for past in store.list_runs(state_dir) if past.kind == check.KIND and past.started <= run.started]
    paths = [path for past in checks if (path := state_dir.runs / past.id / check.MEASURED).is_file()]
    return bounded_files.read_bytes(paths[-1]) if paths else None


def _data(state_dir: StateDir, record: Record | None, run: Exported) -> bytes | None:
    """Return the checksums of a run's data: kept as it started, else of its files here, else of those on the head."""
    sums_file = run.directory / checksums.FILE
    if sums_file.is_file():
        return bounded_files.read_bytes(sums_file, checksums.MOST)
    if run.config is None or run.config.data is None:
        return None
    name, sums = run.run.id, None
    try:
        with progress.step("Computing checksums of the data") as step:
            sums = _local(run.directory / checksums.SOURCE, step) or _on_head(state_dir, record, run.config.data)
        if sums is None:
            progress.note(f"no checksums: the data of {name} is neither on this machine nor on the cluster any more")
    except OrchestratorError as error:
        again = command(f"export {name}", state_dir.name)
        progress.note(f"no checksums: the data of {name} on the cluster: {error.message}; {again} tries again")
    return sums


def _local(path: Path, step: progress.Step) -> bytes | None:
    try:
        source = bounded_files.read_model(path, checksums.Source)
        dataset = datasets.require(source.dataset, Path(source.directory), step.detail)
    except (FileNotFoundError, Unreadable, ConfigError):
        return None
    return checksums.of(dataset).encode() if dataset.remote == source.remote else None


def _on_head(state_dir: StateDir, record: Record | None, remote: str) -> bytes | None:
    """Return the checksums of a directory on the head; None if there is none. Raise OrchestratorError if that fails."""
    if not (record and record.cluster):
        return None
    with control.head_session(state_dir, record.cluster) as head:
        if head.run(["test", "-d", remote]).exit_code:
            return None
        return b"".join(head.read("sum up data", ["sh", "-c", SUMMED, remote], checksums.MOST, FILE_SECONDS))
