"""Read a run from its files: in an unpacked archive, or in the state directory."""

import hashlib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator import progress
from orchestrator.errors import ConfigError
from orchestrator.runs import checksums
from orchestrator.runs.provenance import FILE, Provenance
from orchestrator.runs.run_record import Run
from orchestrator.schema import Results, RunStatus, TrainConfig, bounded_files
from orchestrator.schema.bounded_files import Model, Unreadable, shown
from orchestrator.schema.packages import Installed

OUTPUT = "output/results.json"


@dataclass(frozen=True)
class Exported:
    """Files of a run.

    Attributes:
        directory: Where they are.
        run: Record of the run.
        provenance: Where it came from.
        config: Settings of a training run, None for other runs.
        results: What a training run gave.
        output: Numbers in the results.json of a user's script, by their place.
        status: End of the run.
        packages: Versions of Python packages, None if they are not known.
        data: SHA-256 of the list of the data's checksums, None if there is no such list.
    """

    directory: Path
    run: Run
    provenance: Provenance
    config: TrainConfig | None
    results: Results | None
    output: dict[str, float]
    status: RunStatus | None
    packages: Installed | None
    data: str | None


def load(directory: Path, archive: Path | None = None) -> Exported:
    """Read the files of a run.

    Args:
        directory: Where they are.
        archive: What they were unpacked from, for messages.

    Returns:
        The run.

    Raises:
        ConfigError: A file is missing or damaged.
    """
    try:
        return _read(directory)
    except Unreadable as error:
        problem = f"{archive or directory}: {Path(error.name).name}: {error.reason}"
        raise ConfigError([problem], "export the run again" if archive else "restore the file from a copy") from error


def _read(directory: Path) -> Exported:
    run = _model(directory / "run.json", Run)
    if run is None:
        raise Unreadable("run.json", "is missing, so this is no exported run")
    trained = not run.is_script
    return Exported(
        directory=directory,
        run=run,
        provenance=_model(directory / FILE, Provenance) or Provenance(orchestrator="unknown"),
        config=_model(directory / "config.json", TrainConfig) if trained else None,
        results=_model(directory / "results.json", Results) if trained else None,
        output={} if trained else _numbers(run, directory / OUTPUT),
        status=_model(directory / "status.json", RunStatus),
        packages=_model(directory / "packages.json", Installed),
        data=_digest(directory / checksums.FILE),
    )


def _model(path: Path, model: type[Model]) -> Model | None:
    return bounded_files.read_model(path, model) if path.is_file() else None


def _digest(path: Path) -> str | None:
    return hashlib.sha256(bounded_files.read_bytes(path, checksums.MOST)).hexdigest() if path.is_file() else None


def _numbers(run: Run, path: Path) -> dict[str, float]:
    """Return the finite numbers in the file of a user's script, which may hold anything; note what is left out."""
    try:
        numbers = dict(_leaves(bounded_files.read_json(path, finite=False))) if path.is_file() else {}
    except Unreadable as error:
        progress.note(f"{run.id}: {OUTPUT}: {error.reason}: its numbers are not compared")
        return {}
    if odd := [name for name, number in numbers.items() if not math.isfinite(number)]:
        progress.note(f"{run.id}: {OUTPUT}: not finite, so not compared: {shown(odd)}")
    return {name: number for name, number in numbers.items() if math.isfinite(number)}


def _leaves(value: Any, path: str = "") -> list[tuple[str, float]]:
    """Return the numbers in a JSON value, each with its path, such as ``epochs.0.loss``."""
    if isinstance(value, bool) or not isinstance(value, int | float | dict | list):
        return []
    if isinstance(value, int | float):
        return [(path, float(value))]
    items = value.items() if isinstance(value, dict) else enumerate(value)
    return [leaf for key, inner in items for leaf in _leaves(inner, f"{path}.{key}".lstrip("."))]
