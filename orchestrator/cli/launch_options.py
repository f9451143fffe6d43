"""Options of commands that start a run, and the cluster that it starts on."""

from pathlib import Path
from typing import Annotated

import typer

from orchestrator import providers, state
from orchestrator.cli.options import key
from orchestrator.cluster import Cluster
from orchestrator.config import Config, stored
from orchestrator.errors import ConfigError, command
from orchestrator.runs import engines
from orchestrator.state import Record, StateDir

Np = Annotated[int | None, key("launch.np", "--np")]
Controller = Annotated[str | None, key("launch.controller")]
Interface = Annotated[str | None, key("launch.network_interface")]
CycleTime = Annotated[float | None, key("launch.cycle_time", "--cycle-time", "--cycle-time-ms")]
Fusion = Annotated[int | None, key("launch.fusion_threshold", "--fusion-threshold", "--fusion-threshold-mb")]
Autotune = Annotated[bool | None, key("launch.autotune", "--autotune/--no-autotune")]
Detach = Annotated[
    bool, typer.Option("--detach", "-d", help="Return as soon as the run has started; it continues on the cluster.")
]
Env = Annotated[
    list[str] | None,
    typer.Option(
        "--env",
        metavar="NAME[=VALUE]",
        help="Variable for every rank; NAME alone takes the value from your environment. `ps` shows values to other "
        "users of this machine: pass passwords by NAME alone, or in --env-file.",
    ),
]
EnvFile = Annotated[
    list[Path] | None, typer.Option("--env-file", metavar="FILE", help="File with such variables, one per line.")
]
RequirementsFile = Annotated[
    Path | None,
    typer.Option(
        "--requirements",
        help="File that lists packages to install, instead of the script's requirements.txt or pyproject.toml.",
    ),
]


def deployed_for_trainer(config: Config) -> tuple[StateDir, Cluster, str]:
    """Return what :func:`deployed` returns. Raises ConfigError if the nodes lack the engine's framework."""
    state_dir, record, cluster = _recorded(config)
    framework, needed = stored(record.config).framework, engines.of(config.train).frameworks
    if framework not in needed:
        who = "the trainer" if config.train.engine == "ours" else f"engine {config.train.engine}"
        raise ConfigError(
            [f"framework: the nodes of cluster {config.name!r} have {framework}, {who} needs {needed[0]}"],
            f"{command(f'deploy --framework {needed[0]}', config.name)} changes them;"
            f" {command('run', config.name)} runs scripts of your own with {framework}",
        )
    return state_dir, cluster, providers.of(record).trainer_digest(record)


def deployed(config: Config) -> tuple[StateDir, Cluster, str]:
    """Return the cluster of ``config``, its state directory, and the digest of the trainer that its nodes must have."""
    state_dir, record, cluster = _recorded(config)
    return state_dir, cluster, providers.of(record).trainer_digest(record)


def _recorded(config: Config) -> tuple[StateDir, Record, Cluster]:
    state_dir = state.for_cluster(config.name)
    return state_dir, *state.deployed(state_dir)
