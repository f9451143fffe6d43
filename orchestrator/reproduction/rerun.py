"""Start the run of an archive again, on another cluster."""

import re
import shlex
from collections.abc import Mapping
from typing import Any

from orchestrator import recipes
from orchestrator.config import Train
from orchestrator.errors import ConfigError
from orchestrator.reproduction import citation
from orchestrator.reproduction.exported_run import Exported
from orchestrator.reproduction.run_archive import CODE
from orchestrator.runs.jobs import scripts
from orchestrator.runs.requirements import Requirements
from orchestrator.runs.script import Source
from orchestrator.schema import TrainConfig
from orchestrator.schema.bounded_files import shown

AS_BEFORE = ("np", "controller", "cycle_time", "fusion_threshold", "autotune")
CUT_SHORT = ("max-time", "terminated")
VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.!+_-]{0,63}")


def options(old: Exported) -> dict[str, Any]:
    """Return the options with which the run was launched, by key of cluster.yaml."""
    before = {f"launch.{name}": getattr(old.run, name) for name in AS_BEFORE}
    before["launch.parameter_servers"] = old.run.parameter_servers or None
    return before | ({"train.engine": old.config.engine} if old.config else {"launch.launcher": old.run.launcher})


def settings(old: Exported) -> TrainConfig:
    """Return the settings of a training run, those that were measured or resumed as they were in the end.

    A run that was cut short makes as many steps as it had made at its last evaluation.

    Raises:
        ConfigError: It is no training run, its model or data set is unknown here, or it has no evaluated epoch.
    """
    config = old.results.config if old.results else old.config
    if config is None:
        raise ConfigError([f"{old.run.id}: has no config.json"], "only what `train` and `run` started can be repeated")
    recipes.require(Train(model=config.model, dataset=config.dataset))
    if not (old.results and old.results.epochs):
        again = f"`{shlex.join(citation.repeating(old))}` starts it again without a time limit: export that run"
        raise ConfigError([f"{old.run.id}: ended before an epoch was evaluated: there is nothing to compare"], again)
    changes: dict[str, Any] = {"resume": None, "restarts": 0, "max_time": None}
    if old.results.ended in CUT_SHORT:
        changes["steps"] = old.results.epochs[-1].steps
    return config.model_copy(update=changes)


def source(old: Exported) -> Source:
    """Return the code of a user's script in an unpacked archive. Raises ConfigError if it has none."""
    directory = old.directory / CODE
    files = {str(path.relative_to(directory)): path for path in sorted(directory.rglob("*")) if path.is_file()}
    if not files:
        raise ConfigError([f"{old.run.id}: its code is not in the archive"], "export it where it was started")
    names = (name.removeprefix(f"{scripts.DIRECTORY}/") for name in old.provenance.directories)
    return Source(directory, old.run.command, files, {}, dict.fromkeys(names, directory))  # sent without content


def versions(old: Exported) -> Requirements | None:
    """Return the exact versions of the packages that the run had in addition to the image's.

    The requirements file of its code is not read: it may name files of this machine, and variables with passwords.
    """
    overlay = old.packages.overlay if old.packages else {}
    lines = [f"{name}=={version}" for name, version in overlay.items() if VERSION.fullmatch(version)]
    return Requirements("the archive", requested=lines, lines=lines) if lines else None


def require_variables(old: Exported, values: Mapping[str, str]) -> None:
    """Check that ``values`` has every variable of the run. Raises ConfigError."""
    missing = [name for name in old.provenance.variables if name not in values]
    if missing:
        remedy = "give each by --env NAME, or all by --env-file FILE"
        problem = f"{old.run.id}: had variables whose values are not in the archive: {shown(missing)}"
        raise ConfigError([problem], remedy)
