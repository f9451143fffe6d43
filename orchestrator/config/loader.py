"""Load a Config from a file and flags, or from a state file. All problems are reported at once."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from orchestrator.config import yaml_documents
from orchestrator.config.key_errors import every_key, explain, is_section
from orchestrator.config.model import Config
from orchestrator.errors import ConfigError, StateError
from orchestrator.schema.bounded_files import Unreadable, location

NEEDED = {"openstack": ("image", "flavor"), "gcp": ("zone",), "hosts": ("addresses",)}


def load(
    path: Path | None, flags: Mapping[str, Any], base: Mapping[str, Any] | None = None, whole: bool = True
) -> Config:
    """Load the Config of ``path``, overridden by ``flags``.

    Args:
        path: A cluster.yaml, or None to use ``base``.
        flags: Values by key ("local.cpus": 2); None stands for a flag that was not given.
        base: Values to use if there is no file.
        whole: Whether keys that the provider needs must be set, and keys must be consistent.

    Returns:
        The validated configuration.

    Raises:
        ConfigError: Values are wrong. It holds every problem, each as ``file: path.to.key: problem``.
    """
    values = _read(path) if path else dict(base or {})
    values = {key: value for key, value in values.items() if value is not None or not is_section(key)}
    for key, value in flags.items():
        if value is not None:
            *sections, last = key.split(".")
            target = values
            for section in sections:
                inner = target.get(section)
                target[section] = target = dict(inner) if isinstance(inner, Mapping) else {}
            target[last] = value
    chosen = {key for key, value in flags.items() if value is not None}
    try:
        config = Config.model_validate(values)
    except ValidationError as error:
        problems = [_problem(e, path, chosen) for e in error.errors()]
        raise ConfigError(problems) from None
    problems = [_key_with_file(key, path, chosen) + f": {what}" for key, what in _problems(config) if whole]
    if problems:
        raise ConfigError(problems)
    return config


def _problems(config: Config) -> Iterator[tuple[str, str]]:
    """Yield inconsistencies between keys that are valid on their own, each as key and problem."""
    section = getattr(config, config.provider)
    for key in NEEDED.get(config.provider, ()):
        if not getattr(section, key):
            yield f"{config.provider}.{key}", f"needed with provider {config.provider}"
    if config.min_nodes and config.min_nodes > config.nodes:
        yield "min_nodes", f"{config.min_nodes} are more than the {config.nodes} nodes requested"
    if config.provider == "hosts" and 0 < len(config.hosts.addresses) < config.nodes:
        yield "nodes", f"{config.nodes} asked for, hosts.addresses has {len(config.hosts.addresses)}"


def stored(values: Mapping[str, Any]) -> Config:
    """Return the Config that a state file holds, without keys that this version does not know.

    Raises:
        StateError: The known keys cannot be used.
    """
    sections = {
        key: _without_unknown_keys(Config.model_fields[key].annotation, value)
        for key, value in _without_unknown_keys(Config, values).items()
    }
    try:
        return Config.model_validate(sections)
    except ValidationError as error:
        problems = "; ".join(_problem(e, None, set()) for e in error.errors())
        raise StateError(f"the recorded configuration cannot be used: {problems}", "name a cluster.yaml") from error


def usable(values: Mapping[str, Any]) -> Config:
    """Return the valid part of the Config in a state file: for a teardown, which wrong values must not prevent."""
    rest = dict(values)
    while True:
        try:
            return stored(rest)
        except StateError as error:
            if not isinstance(error.__cause__, ValidationError):
                raise
            for problem in error.__cause__.errors():
                rest.pop(str(problem["loc"][0]), None)


def _without_unknown_keys(model: Any, values: Any) -> Any:
    if not (isinstance(values, Mapping) and isinstance(model, type) and issubclass(model, BaseModel)):
        return values
    return {key: value for key, value in values.items() if key in model.model_fields}


def name_in(path: Path) -> str | None:
    """Return the cluster's name in ``path``, even if other keys are wrong: None if missing, "" if empty."""
    values = _read(path)
    return str(values["name"] or "") if "name" in values else None


def _read(path: Path) -> dict[str, Any]:
    if path == Path(os.devnull):  # a device, by which people name an empty file
        return {}
    try:
        values = yaml_documents.read(path)
    except FileNotFoundError as error:
        raise ConfigError([f"{path}: {error.strerror}"], "`orchestrator init` writes one") from None
    except Unreadable as error:
        raise ConfigError([str(error)], f"correct {path}; `orchestrator init FILE` writes one with every key") from None
    if not isinstance(values, dict | None):
        raise ConfigError([f"{path}: expected keys and values, found {type(values).__name__}"])
    return {str(key): value for key, value in (values or {}).items()}


def _problem(error: Any, path: Path | None, flags: set[str]) -> str:
    key = location(error["loc"])
    return explain(error, _key_with_file(key, path, flags).removesuffix(key), [name for name, _, _ in every_key()])


def _key_with_file(key: str, path: Path | None, flags: set[str]) -> str:
    return f"{path}: {key}" if path and key not in flags else key
