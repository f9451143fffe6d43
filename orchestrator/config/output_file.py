"""Write the files that users name as outputs of commands: regular files atomically, devices and pipes directly.

A symbolic link stays, and its target is replaced. Devices and pipes are written into: with root's rights too, `-o
/dev/null` leaves the device.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from orchestrator.errors import ConfigError
from orchestrator.schema.atomic_write import replaced


def write(content: bytes, path: Path, option: str) -> None:
    """Write ``content`` to the ``path`` that ``option`` names.

    Raises:
        ConfigError: The file cannot be written.
    """
    with _writable(f"{option}: {path}"):
        _write(content, path, None)


def create(content: bytes, path: Path, force: bool, mode: int | None = None) -> None:
    """Write a file of settings, which users then edit.

    Args:
        content: Its content.
        path: Its path.
        force: Whether a file that exists is replaced.
        mode: Its mode; None for that of the file that is replaced, or else the one that the umask leaves.

    Raises:
        ConfigError: It exists already, is a pipe, or cannot be written.
    """
    with _writable(str(path)):
        if path.exists() and not force:
            raise ConfigError([f"{path} exists already"], "--force replaces it")
        if path.is_fifo():  # writing would wait for a reader
            raise ConfigError([f"{path} is a pipe, not a file"], "name a file")
        _write(content, path, mode)


@contextmanager
def _writable(name: str) -> Iterator[None]:
    """Turn an error of the file ``name`` into ConfigError."""
    try:
        yield
    except OSError as error:
        raise ConfigError([f"{name}: {error.strerror}"], "name a file in a directory that exists") from error


def _write(content: bytes, path: Path, mode: int | None) -> None:
    """Replace a regular file, or write into a device or a pipe; ``mode`` as in :func:`create`. Raises OSError."""
    if _is_special(path):
        with os.fdopen(os.open(path, os.O_WRONLY), "wb") as special:
            special.write(content)
    else:
        with replaced(Path(os.path.realpath(path)), _mode(path) if mode is None else mode) as file:
            file.write(content)


def _mode(path: Path) -> int:
    """Return the permissions of ``path``, or of what it links to; of a new file if that does not exist."""
    with suppress(FileNotFoundError):
        return path.stat().st_mode & 0o777
    umask = os.umask(0o077)  # cannot be read without setting it
    os.umask(umask)
    return 0o666 & ~umask


def _is_special(path: Path) -> bool:
    """Tell whether ``path``, or what it links to, exists and is no regular file."""
    with suppress(FileNotFoundError):
        return not stat.S_ISREG(path.stat().st_mode)
    return False
