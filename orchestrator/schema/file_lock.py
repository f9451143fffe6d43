"""Locks of files, which the system releases when their process ends."""

import fcntl
from typing import IO


def try_lock(file: IO[str], shared: bool = False) -> bool:
    """Try to take the lock of an open file without waiting; return whether that worked.

    Any number of processes can hold a ``shared`` lock, while none holds another.
    """
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
