"""Copies of files between this machine and a node: verified, resumed where they stopped, put in place whole.

Each file is written in the directory of its target as ``.NAME.IDENTITY.part``, where IDENTITY changes with size and
time of the source. A partial file is compared by SHA-256 and continued; the complete file is compared on both sides and
then renamed.
"""

import hashlib
import os
import posixpath
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from orchestrator.cluster import Cluster
from orchestrator.errors import ConfigError, NodesFailed
from orchestrator.ssh import connect
from orchestrator.ssh.receive import Readable
from orchestrator.ssh.session import ANSWER_SECONDS, Session, Unreachable
from orchestrator.ssh.tree import Entry, Tree
from orchestrator.state import StateDir

PIECE = 1 << 20  # bytes
PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0)  # seconds before a connection that broke without progress is made again
SHOW_SECONDS = 0.2  # between two lines of progress
HASH_SPEED = 20 << 20  # bytes per second that a slow disk gives
LONGEST_NAME = 200  # bytes: file systems allow 255
# OpenSSL uses the processor's instructions for SHA-256, Debian's sha256sum does not: a quarter of its time.
SUM = "sum() { { openssl dgst -sha256 -r 2>&- || sha256sum; } | cut -c 1-64; }\n"
FREE_BYTES = 64 << 20  # to leave free


@dataclass
class Copied:
    """Result of a copy.

    Attributes:
        target: Where the copy is.
        files: Number of files.
        bytes: Their size.
        sent: Bytes that crossed the connection this time.
        same: Files that were there with the same size and time, and were not sent.
        left_out: The reason for each link and special file that is not copied.
    """

    target: str = ""
    files: int = 0
    bytes: int = 0
    sent: int = 0
    same: int = 0
    left_out: dict[str, str] = field(default_factory=dict)


@dataclass
class Progress:
    """State of a copy that continues after its connection broke: ``done`` has the files that are in place."""

    detail: Callable[[str], None]
    copied: Copied = field(default_factory=Copied)
    done: set[str] = field(default_factory=set)
    shown: float = 0.0

    def begin(self, tree: Tree, target: str) -> None:
        """Note what is copied."""
        size = sum(entry.size for entry in tree.files.values())
        self.copied = Copied(target, len(tree.files), size, left_out=tree.left_out)

    def count(self, size: int) -> None:
        """Count ``size`` bytes that cross the connection."""
        self.copied.sent += size
        if time.monotonic() - self.shown < SHOW_SECONDS:
            return
        self.shown = time.monotonic()
        self.detail(f"{self.copied.sent >> 20:,} of {self.copied.bytes >> 20:,} MiB")


def persist(
    state_dir: StateDir, cluster: Cluster, node: str, progress: Progress, work: Callable[[Session], None]
) -> Copied:
    """Call ``work`` with a session on a node, and again with a new one if the connection breaks.

    Args:
        state_dir: State directory of the cluster.
        cluster: Deployed cluster.
        node: Name of the node.
        progress: State of the copy; as long as it sends more each time, it is continued.
        work: Copies what is not there yet.

    Returns:
        What was copied.

    Raises:
        NodesFailed: Several connections in a row failed.
    """
    failures, sent = 0, 0
    while True:
        try:
            with connect(state_dir, cluster, node) as session:
                work(session)
                return progress.copied
        except Unreachable as error:
            failures = failures + 1 if progress.copied.sent == sent else 1
            sent = progress.copied.sent
            if failures > len(PAUSES):
                hint = "run the same command again to continue"
                raise NodesFailed("the copy is not complete", {node: str(error)}, hint) from error
        time.sleep(PAUSES[failures - 1])


def part_of(target: str, entry: Entry) -> str:
    """Return the path of the unfinished copy of a source to ``target``."""
    directory, name = posixpath.split(target)
    identity = hashlib.sha256(os.fsencode(f"{entry.size} {entry.modified} {name}")).hexdigest()[:12]
    short = os.fsencode(name)[:LONGEST_NAME].decode(errors="ignore")
    return posixpath.join(directory, f".{short}.{identity}.part")


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
    if size + FREE_BYTES > free:
        room = f"{size / 2**30:.2f} GiB are missing, and {free / 2**30:.2f} GiB are free"
        raise ConfigError([f"{where}: no space left: {room}"], "free space there, or name another directory")
