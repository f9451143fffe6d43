"""A script of the user's own: where it lives, what of that directory is sent, and the command as it reads there."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path

from orchestrator.errors import ConfigError

MOST = 200 << 20  # bytes that a script's directory may have
LEFT_OUT = {"venv", "__pycache__", "node_modules"}
# Whoever is on the cluster reads what is sent, and a cloud's credentials often lie beside a script.
SECRET = (
    *("cluster.yaml", "*openrc*.sh"),
    *(f"{name}.{kind}" for name in ("clouds", "clouds-public", "secure") for kind in ("yaml", "yml", "json")),
)
NAMES_SECRET = (
    *("OS_CLIENT_CONFIG_FILE", "OS_CLIENT_SECURE_FILE", "OS_CLIENT_VENDOR_FILE"),
    *("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CREDENTIALS"),
)


def locate(argv: Sequence[str]) -> tuple[Path, list[str]]:
    """The directory to send, and the command as it reads from inside it.

    The script is the first argument that ends in .py or is a file here; ``python -m module`` sends this directory.
    Raises ConfigError where there is none, or none that can be executed.
    """
    if not argv:
        raise ConfigError(["run: nothing to run: `orchestrator run -- python my_script.py`"])
    for position, argument in enumerate(argv):
        if argument == "-m":
            return Path.cwd(), list(argv)
        path = Path(argument)
        if _is_file(path) and (position or "/" in argument or not shutil.which(argument)):
            inside = path.name if position else f"./{path.name}"
            if not position and not os.access(path, os.X_OK):
                how = f"orchestrator run -- python {argument}" if path.suffix == ".py" else f"chmod +x {argument}"
                raise ConfigError([f"run: {argument}: is not executable: `{how}`"])
            return path.absolute().parent, [*argv[:position], inside, *argv[position + 1 :]]
        if path.suffix == ".py":
            raise ConfigError([f"run: {argument}: no such file"])
    raise ConfigError(
        [f"run: no script in `{' '.join(argv)}`: name one, as in `orchestrator run -- python my_script.py`"]
    )


def _is_file(path: Path) -> bool:
    """Where it is code rather than a name, it may be too long to be looked for."""
    with suppress(OSError):
        return path.is_file()
    return False


def files(directory: Path, config: Path | None = None) -> dict[str, Path]:
    """What is sent of ``directory``, by relative name: nothing hidden, no caches, no environments, no credentials.

    ``config`` is the configuration file in use, which may hold passwords.

    Raises ConfigError where it is too much, or cannot be read.
    """
    found: dict[str, Path] = {}
    total = 0
    try:
        secret = _secret(config)
        for path in (path for path in _walk(directory, frozenset()) if not _is_secret(path, secret)):
            found[str(path.relative_to(directory))] = path
            total += path.stat().st_size
            if total > MOST:
                more = f"run: {directory} holds more than {MOST >> 20} MiB"
                raise ConfigError([f"{more}: give the script a directory of its own"])
    except OSError as error:
        raise ConfigError([f"run: {error.filename}: {error.strerror}"]) from error
    return found


def _secret(config: Path | None) -> set[Path]:
    """Files with credentials that the environment, or the command, names."""
    named = [os.environ.get(name) for name in NAMES_SECRET]
    return {Path(name).resolve() for name in (*named, config) if name}


def _is_secret(path: Path, named: set[Path]) -> bool:
    return path.resolve() in named or any(fnmatch(path.name, pattern) for pattern in SECRET)


def _walk(directory: Path, above: frozenset[Path]) -> Iterator[Path]:
    """Files below ``directory``, through links too, but never into a directory that we came from."""
    here = above | {directory.resolve()}
    for entry in sorted(directory.iterdir()):
        if entry.name.startswith(".") or entry.name in LEFT_OUT:
            continue
        if entry.is_file():
            yield entry
        elif entry.is_dir() and entry.resolve() not in here:
            yield from _walk(entry, here)
