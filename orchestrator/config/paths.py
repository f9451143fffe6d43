"""Paths in cluster.yaml, in flags and in commands: expansion, storing, and words that may be paths."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from orchestrator.errors import ConfigError


def expanded(key: str, path: Path) -> Path:
    """Return ``path`` with ~ replaced by the home directory. Raise ConfigError if there is no such user."""
    try:
        return path.expanduser()
    except RuntimeError:
        raise ConfigError([f"{key}: {path}: no user {path.parts[0][1:]!r}"], "write the whole path") from None


def storable(config: BaseModel) -> dict[str, Any]:
    """Return a configuration for a state file, with absolute paths: later commands may run in another directory."""
    values: dict[str, Any] = to_jsonable_python(_absolute(config.model_dump()))
    return values


def _absolute(value: Any) -> Any:
    """Make all relative paths in nested values absolute. A path with ~ stays, for :func:`expanded`."""
    if isinstance(value, dict):
        return {key: _absolute(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_absolute(inner) for inner in value]
    return value.absolute() if isinstance(value, Path) and not str(value).startswith("~") else value


def is_file(word: Path) -> bool:
    """Tell whether a file has this path; a word that is no path may be too long for one."""
    with suppress(OSError):
        return word.is_file()
    return False


def exists(word: Path) -> bool:
    """Tell whether a file or directory has this path; a word that is no path may be too long for one."""
    with suppress(OSError):
        return word.exists()
    return False
