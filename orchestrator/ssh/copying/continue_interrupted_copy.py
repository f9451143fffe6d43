"""Unfinished copies: their names, the SHA-256 of what they have, and the room that the rest needs."""

import hashlib
import os
import posixpath

from orchestrator.errors import ConfigError
from orchestrator.ssh.copying.tree import Entry, Tree
from orchestrator.ssh.session import ANSWER_SECONDS, Session
from orchestrator.ssh.unpack_tar import Readable

PIECE = 1 << 20  # bytes
HASH_SPEED = 20 << 20  # bytes per second that a slow disk gives
LONGEST_NAME = 200  # bytes: file systems allow 255
# OpenSSL uses the processor's instructions for SHA-256, Debian's sha256sum does not: a quarter of its time.
SUM = "sum() { { openssl dgst -sha256 -r 2>&- || sha256sum; } | cut -c 1-64; }\n"
FREE_BYTES = 64 << 20  # to leave free


def part_of(target: str, entry: Entry) -> str:
    """Return the path of the unfinished copy of a file to ``target``."""
    return _part(target, f"{entry.size} {entry.modified}")


def directory_part_of(target: str, source: str) -> str:
    """Return the path of the unfinished copy of the directory ``source`` to a new directory ``target``."""
    return _part(target, source)


def _part(target: str, source: str) -> str:
    directory, name = posixpath.split(target)
    identity = hashlib.sha256(os.fsencode(f"{source} {name}")).hexdigest()[:12]
    short = os.fsencode(name)[:LONGEST_NAME].decode(errors="ignore")
    return posixpath.join(directory, f".{short}.{identity}.part")


def kept(tree: Tree, root: str) -> dict[str, str]:
    """Return what belongs to an unfinished copy of ``tree`` in ``root``: kind ("d" or "f") by relative name."""
    parts = (part_of(posixpath.join(root, name), entry) for name, entry in tree.files.items())
    files = [*tree.files, *(posixpath.relpath(part, root) for part in parts)]
    return {**dict.fromkeys(tree.directories, "d"), **dict.fromkeys(files, "f")}


def hashed(file: Readable, size: int) -> "hashlib._Hash":
    """Return the SHA-256 of the next ``size`` bytes."""
    digest = hashlib.sha256()
    while size and (piece := file.read(min(PIECE, size))):
        digest.update(piece)
        size -= len(piece)
    return digest


def remote_digest(session: Session, path: str, size: int) -> str:
    """Return the SHA-256 of the first ``size`` bytes of a file on a node."""
    argv = ["sh", "-c", f'{SUM}head -c "$1" -- "$0" | sum', path, str(size)]
    return session.must("verify a file", argv, patience(size)).strip()


def patience(size: int) -> float:
    """Return the seconds in which a node has read ``size`` bytes."""
    return ANSWER_SECONDS + size / HASH_SPEED


def require_space(where: str, size: int, free: int) -> None:
    """Raise ConfigError if ``size`` bytes do not fit."""
    if size and size + FREE_BYTES > free:
        room = f"{size / 2**30:.2f} GiB are missing, and {free / 2**30:.2f} GiB are free"
        raise ConfigError([f"{where}: no space left: {room}"], "make room there, or name another directory")
