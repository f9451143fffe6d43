"""Paths in cluster.yaml, in flags and in commands: expansion, and words that may be paths."""

from contextlib import suppress
from pathlib import Path

from orchestrator.errors import ConfigError


def expanded(key: str, path: Path) -> Path:
    """Return ``path`` with ~ replaced by the home directory. Raise ConfigError if there is no such user."""
    try:
        return path.expanduser()
    except RuntimeError:
        raise ConfigError([f"{key}: {path}: no user {path.parts[0][1:]!r}"], "write the whole path") from None


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
