"""Unpack archives that a node sends; the node may be compromised.

Only regular files with requested names are written, each once, with no more bytes than allowed for the name.
"""

import io
import os
import shutil
import tarfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from orchestrator.ssh.pack_tar import CHUNK

HEADER_BYTES = 4 * CHUNK  # limit for one member's headers, which tarfile reads into memory
MOST_FILES = 100_000
DEEPEST, LONGEST = 64, 1024  # parts and characters of a name
ODD = (tarfile.TarError, ValueError, ArithmeticError, LookupError, RecursionError)  # of tarfile, for a damaged header


class Readable(Protocol):
    """Source of bytes: a file, or paramiko's end of a pipe."""

    def read(self, size: int, /) -> bytes: ...


class Refused(Exception):
    """A node sends something that was not requested; the message names it."""


class _Meter(io.RawIOBase):
    """A pipe that yields at most ``remaining`` bytes."""

    def __init__(self, pipe: Readable) -> None:
        self._pipe, self.remaining = pipe, HEADER_BYTES

    def read(self, size: int = -1) -> bytes:
        piece = self._pipe.read(size)
        self.remaining -= len(piece)
        if self.remaining < 0:
            raise Refused("headers without end")
        return piece


def unpack(pipe: Readable, limits: Mapping[str, int], target: Path, executable: bool = False) -> list[str]:
    """Unpack the archive in ``pipe`` into the empty, private directory ``target``.

    Args:
        pipe: Uncompressed tar.
        limits: Largest number of bytes by requested name; a name with a slash at the end is a directory with all files
            below it.
        target: Local directory.
        executable: Whether files that their owner could execute stay executable.

    Returns:
        Names that are not regular files and were left out.

    Raises:
        Refused: A member was not requested, exists already, is sparse, or is larger than allowed.
        tarfile.ReadError: The archive is cut short or damaged.
        OSError: A local file cannot be written.
    """
    meter, used, left_out = _Meter(pipe), Counter[str](), list[str]()
    try:
        with tarfile.open(fileobj=meter, mode="r|", bufsize=CHUNK) as archive:
            while member := archive.next():
                archive.members.clear()  # type: ignore[attr-defined]  # it would keep all of them
                requested = _requested_name(member, limits)
                used.update({requested: _size(member), "": 1})
                if used[requested] > limits[requested] or used[""] > MOST_FILES:
                    raise Refused(f"{_shown(requested)} with more than {limits[requested]} bytes or {MOST_FILES} files")
                if member.isreg():
                    meter.remaining = member.size + HEADER_BYTES
                    _write(archive, member, target)
                    if executable and member.mode & 0o100:
                        (target / member.name).chmod(0o755)
                elif not member.isdir():
                    left_out.append(member.name)
                meter.remaining = HEADER_BYTES
    except tarfile.ReadError:
        raise
    except ODD as error:
        raise tarfile.ReadError(f"damaged header: {error}") from error
    return left_out


def _requested_name(member: tarfile.TarInfo, limits: Mapping[str, int]) -> str:
    """Return the requested name that a member belongs to. Raises Refused."""
    name, parts = member.name, member.name.split("/")
    plain = not {"", ".", ".."} & set(parts) and "\0" not in name
    if plain and len(parts) <= DEEPEST and len(name) <= LONGEST:
        trees = ("/".join(parts[:count]) + "/" for count in range(1, len(parts)))
        for requested in (f"{name}/" if member.isdir() else name, *trees):
            if requested in limits:
                return requested
    raise Refused(f"{_shown(name)}, which was not requested")


def _size(member: tarfile.TarInfo) -> int:
    """Return the size of a member. Raises Refused if it is not the number of bytes that follow."""
    if member.issparse() or member.size < 0:
        raise Refused(f"{_shown(member.name)} as a sparse file")
    return member.size


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    path = target / member.name
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.parent.resolve() != target.resolve() / Path(member.name).parent:
        raise Refused(f"{_shown(member.name)} through a link")
    content = archive.extractfile(member)
    if content is None or os.path.lexists(path):
        raise Refused(f"{_shown(member.name)} twice")
    with content, path.open("xb") as file:
        shutil.copyfileobj(content, file, CHUNK)


def _shown(name: str) -> str:
    return repr(name[:200])
