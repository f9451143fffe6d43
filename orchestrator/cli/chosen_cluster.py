"""Cluster that a command is for, and its configuration: from options, cluster.yaml, the last deploy, and defaults."""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from orchestrator import config, progress, state
from orchestrator.cluster import Cluster
from orchestrator.config import Config
from orchestrator.errors import ConfigError
from orchestrator.schema.bounded_files import shown
from orchestrator.state import Record, StateDir


def load_config(path: Path | None, name: str | None, flags: Mapping[str, Any], whole: bool = True) -> Config:
    """Load cluster.yaml, else the deployed cluster's configuration, else the defaults; ``flags`` override each.

    Args:
        path: The configuration file; None for cluster.yaml if it exists.
        name: The cluster; None for the one that the file names.
        flags: Values by key, as in {"local.cpus": 2}; None for a flag that was not given.
        whole: As in config.load.

    Returns:
        The validated configuration.
    """
    file = chosen_file(path)
    base = {} if file else _deployed(config.DEFAULT_NAME if name is None else name)
    loaded = config.load(file, {"name": name, **flags}, base, whole)
    if file:
        _loaded.append((loaded, file, {key for key, value in flags.items() if value is not None}))
    return loaded


def note_defaults(loaded: Config, path: Path | None, keys: Iterable[str]) -> None:
    """Print which settings of the last deploy return to their defaults, because neither file nor flag sets them.

    Args:
        loaded: The configuration to deploy.
        path: As for :func:`load_config`.
        keys: Keys to compare, as in "local.cpus".
    """
    file = chosen_file(path)
    before, now = _deployed(loaded.name) if file else {}, loaded.model_dump(mode="json")
    for key in keys if before else ():
        old, new = _value(before, key), _value(now, key)
        if old != new and not config.is_set(loaded, key):
            was, default = json.dumps(old), json.dumps(new)
            progress.note(f"{key}: {was} becomes {default}, the default: set {key} in {file} to keep {was}")


def _value(values: Any, key: str) -> Any:
    for part in key.split("."):
        values = values.get(part) if isinstance(values, Mapping) else None
    return values


_loaded: list[tuple[Config, Path, set[str]]] = []  # the configurations of this process, each with file and flags


def located(problem: str) -> str:
    """Prefix ``problem``, as ``key: what is wrong``, with the file that sets the key, if a file does."""
    key = problem.partition(":")[0]
    files = [file for loaded, file, flags in _loaded if key not in flags and config.is_set(loaded, key)]
    return f"{files[0]}: {problem}" if files else problem


def chosen_file(path: Path | None) -> Path | None:
    """Return the chosen configuration file, else cluster.yaml if it exists, even as a broken link."""
    return path or (config.FILE if os.path.lexists(config.FILE) else None)


def _deployed(name: str) -> dict[str, Any]:
    if not config.NAME.fullmatch(name):
        return {}
    record = state.read(state.for_cluster(name))
    return config.stored(record.config).model_dump(mode="json") if record else {}


def state_dir(path: Path | None, name: str | None) -> StateDir:
    """Return the state directory of the chosen cluster; of cluster.yaml only the name must be valid."""
    file = chosen_file(path) if name is None else None
    if file:
        name = config.name_in(file)
    if name is None:
        name = config.DEFAULT_NAME
    if not config.NAME.fullmatch(name):
        where = f"{file}: " if file else ""
        raise ConfigError([f"{where}name: {shown(name)} is not usable: {config.NAME_RULE}"])
    return state.for_cluster(name)


def deployed(path: Path | None, name: str | None) -> tuple[StateDir, Record, Cluster]:
    """Return state directory, record and nodes of the chosen cluster.

    Raises:
        StateError: It is not deployed.
    """
    chosen = state_dir(path, name)
    record, cluster = state.deployed(chosen)
    return chosen, record, cluster


def node_named(name: str, cluster: Cluster, where: str = "", hint: str = "") -> str:
    """Return the name of a node that the user named; `head` is the head of every cluster.

    Args:
        name: What the user wrote.
        cluster: The cluster.
        where: Start of the message, if there is no such node.
        hint: Remedy in that case.

    Returns:
        The node's own name.

    Raises:
        ConfigError: The cluster has no such node.
    """
    node = cluster.head if name == "head" else name
    if node not in cluster.nodes:
        near = config.nearest(name, list(cluster.nodes))
        raise ConfigError([f"{where}no node {shown(name)}{near} (nodes: {', '.join(cluster.nodes)})"], hint)
    return node
