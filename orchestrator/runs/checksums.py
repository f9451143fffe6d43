"""SHA-256 of every file of a data set, in the form of sha256sum, computed once for files that stay the same."""

import hashlib
from pathlib import Path

from orchestrator import progress, state
from orchestrator.errors import command
from orchestrator.runs.datasets import FoundDataset
from orchestrator.runs.run_record import Run
from orchestrator.schema import bounded_files
from orchestrator.schema.file_model import File
from orchestrator.state import StateDir

FILE, SOURCE = "data.sha256", "data.json"
AT_ONCE = 1 << 30  # bytes that take a few seconds; larger data sets are summed up when a run is exported
MOST = 512 << 20  # bytes of a list: that of ImageNet has 150 MB
CHUNK = 1 << 20


class Source(File):
    """Directory of a run's data on this machine; ``remote`` names it on the nodes, and changes with its files."""

    dataset: str
    directory: str
    remote: str


def keep(state_dir: StateDir, run: Run, data: FoundDataset) -> None:
    """Record in the directory of ``run`` where its data is, and its checksums unless they would take long."""
    directory = state_dir.runs / run.id
    source = Source(dataset=data.dataset, directory=str(data.directory.absolute()), remote=data.remote)
    state.replace(directory / SOURCE, source.model_dump_json() + "\n")
    if data.size <= AT_ONCE:
        state.replace(directory / FILE, of(data))


def keep_same(state_dir: StateDir, old: Run, run: Run) -> None:
    """Record for ``run``, which continues ``old``, the same data; a record that cannot be read is reported."""
    export = command(f"export {run.id}", state_dir.name)
    for name in (SOURCE, FILE):
        text, path = None, state_dir.runs / old.id / name
        with progress.log_errors(f"{run.id} does not record its data: {export} computes checksums if it needs them"):
            text = bounded_files.read_text(path, MOST) if path.is_file() else None
        if text is not None:
            state.replace(state_dir.runs / run.id / name, text)


def of(data: FoundDataset) -> str:
    """Return the checksums of a data set, a line for each file; a cache that cannot be used is reported."""
    cached = state.cache() / "checksums" / f"{Path(data.remote).name}.sha256"
    with progress.log_errors("checksums of the data set are computed again"):
        if cached.is_file():
            return bounded_files.read_text(cached, MOST)
    text = "".join(f"{_sha256(data.directory / name)}  {name}\n" for name in sorted(data.files))
    with progress.log_errors("checksums of the data set are not cached"):
        state.replace(cached, text)
    return text


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(CHUNK):
            digest.update(piece)
    return digest.hexdigest()
