"""Paths as they are written in cluster.yaml and in flags."""

from pathlib import Path

from orchestrator.errors import ConfigError


def expanded(key: str, path: Path) -> Path:
    """``path`` with the home directory that a ~ stands for. Raises ConfigError where nobody has that name."""
    try:
        return path.expanduser()
    except RuntimeError:
        raise ConfigError([f"{key}: {path}: no user {path.parts[0][1:]!r}"], "write the directory out") from None
