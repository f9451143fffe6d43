"""Write the files that users name as outputs of commands: regular files atomically, devices and pipes directly.

A symbolic link stays, and its target is replaced. Devices and pipes are written into: with root's rights too, `-o
/dev/null` leaves the device.
"""

import os
import stat
from contextlib import suppress
from pathlib import Path

from orchestrator.errors import ConfigError
from orchestrator.schema.atomic_write import replaced


def write(content: bytes, path: Path, option: str) -> None:
    """Write ``content`` to the ``path`` that ``option`` names.

    Raises:
        ConfigError: The file cannot be written.
    """
    try:
        if _is_special(path):
            with os.fdopen(os.open(path, os.O_WRONLY), "wb") as special:
                special.write(content)
        else:
            with replaced(Path(os.path.realpath(path)), 0o644) as file:
                file.write(content)
    except OSError as error:
        raise ConfigError([f"{option}: {path}: {error.strerror}"], "name a file in a directory that exists") from error


def _is_special(path: Path) -> bool:
    """Tell whether ``path``, or what it links to, exists and is no regular file."""
    with suppress(FileNotFoundError):
        return not stat.S_ISREG(path.stat().st_mode)
    return False
