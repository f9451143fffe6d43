"""Open files that others made. Standard library only: the data check must answer at once, without pydantic."""

import errno
import io
import os
import stat
from pathlib import Path

KINDS = {stat.S_IFDIR: "a directory", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}


def open_regular(path: Path) -> io.BufferedReader:
    """Open a regular file for reading bytes; refuse a pipe or a device at once instead of waiting for it.

    Raises:
        OSError: With ``strerror`` and ``filename``.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    kind = KINDS.get(stat.S_IFMT(mode), "a device")
    raise OSError(errno.EINVAL, f"is {kind}, not a file", str(path))
