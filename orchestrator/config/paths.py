"""Expansion of paths in cluster.yaml and in flags."""

from pathlib import Path

from orchestrator.errors import ConfigError


def expanded(key: str, path: Path) -> Path:
    """Return ``path`` with ~ replaced by the home directory. Raise ConfigError if there is no such user."""
    try:
        return path.expanduser()
    except RuntimeError:
        raise ConfigError([f"{key}: {path}: no user {path.parts[0][1:]!r}"], "write the whole path") from None
