"""Copy files of this machine to a node."""

import hashlib
import os
import posixpath
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

from orchestrator import untrusted_files
from orchestrator.cluster import Cluster
from orchestrator.errors import CommandFailed, ConfigError
from orchestrator.ssh.copy import (
    PIECE,
    SUM,
    Copied,
    Progress,
    hashed,
    part_of,
    patience,
    persist,
    remote_digest,
    require_space,
)
from orchestrator.ssh.receive import Readable
from orchestrator.ssh.session import ANSWER_SECONDS, Session
from orchestrator.ssh.tree import SECOND, Entry, Tree, of_path
from orchestrator.state import StateDir

COMMAND_BYTES = 60_000  # Linux: a command has 128 KiB at most
CHANGED = 9
# $0 begin, $1 unfinished copy, $2 SHA-256, $3 mode, $4 time, $5 target; a connection that broke may still be writing,
# so each byte has its place.
STALE = 'rm -f -- "$(dirname -- "$5")/.$(basename -- "$5")".????????????.part\n'
WRITE = 'dd of="$1" bs=1M iflag=fullblock oflag=seek_bytes conv=notrunc status=none seek="$0" || exit 1\n'
FINISH = f"""{SUM}
test "$(sum < "$1")" = "$2" || {{ rm -f -- "$1"; exit {CHANGED}; }}
chmod "$3" -- "$1" && touch -d "@$4" -- "$1" && mv -fT -- "$1" "$5"
"""
FREE = 'p=$0; while ! test -d "$p"; do p=$(dirname -- "$p"); done; df --output=avail --block-size=1 -- "$p"'


@dataclass(frozen=True)
class _Status:
    """Kind, size and time (whole seconds) of a path on the node."""

    kind: str
    size: int
    modified: int


ABSENT = _Status("", 0, 0)


def upload(
    state_dir: StateDir, cluster: Cluster, source: Path, node: str, target: str, detail: Callable[[str], None]
) -> Copied:
    """Copy a file or a directory to a node.

    Args:
        state_dir: State directory of the cluster.
        cluster: Deployed cluster.
        source: File or directory of this machine.
        node: Name of the node.
        target: Path of the copy; the copy is below it if it is a directory or ends in a slash.
        detail: Called with a line of progress.

    Returns:
        What was copied.

    Raises:
        ConfigError: A path cannot be used, or there is no room on the node.
        NodesFailed: The node does not answer.
    """
    tree, progress = of_path(source), Progress(detail)
    name = source.absolute().name if source.name not in ("", "..") else source.resolve().name

    def work(session: Session) -> None:
        if not progress.copied.target:
            below = target.endswith("/") or session.run(["test", "-d", target]).exit_code == 0
            progress.begin(tree, posixpath.join(target, name) if below else target)
        _Upload(session, source, tree, progress).copy()

    return persist(state_dir, cluster, node, progress, work)


class _Upload:
    """Copy of the files that are not in place yet, over one connection."""

    def __init__(self, session: Session, source: Path, tree: Tree, progress: Progress) -> None:
        self.session, self.source, self.tree, self.progress = session, source, tree, progress
        root = progress.copied.target
        self.targets = {name: posixpath.join(root, name) if name else root for name in tree.files}
        self.directories = {posixpath.join(root, name): mode for name, mode in tree.directories.items()}

    def copy(self) -> None:
        """Copy the files that are not in place yet."""
        files = {name: entry for name, entry in self.tree.files.items() if name not in self.progress.done}
        parts = {name: part_of(self.targets[name], entry) for name, entry in files.items()}
        there = self._status([path for name in files for path in (self.targets[name], parts[name])])
        self._require(files, parts, there)
        self._make_directories()
        for name, entry in files.items():
            status = there.get(self.targets[name], ABSENT)
            if status.kind and (status.size, status.modified) == (entry.size, entry.modified // SECOND):
                self.progress.copied.same += 1
            else:
                self._send(name, entry, parts[name], there.get(parts[name], ABSENT).size)
            self.progress.done.add(name)
        for mode in set(self.directories.values()):
            for words in _chunks(path for path, other in self.directories.items() if other == mode):
                self.session.must("set modes", ["chmod", f"{mode | 0o700:o}", "--", *words])

    def _status(self, paths: Iterable[str]) -> dict[str, _Status]:
        statuses = {}
        for words in _chunks(paths):
            listing = ["stat", "--dereference", "--printf", r"%F\0%s\0%Y\0%n\0", "--", *words]
            fields = b"".join(
                self.session.read("look at files", ["sh", "-c", f"{shlex.join(listing)} 2>&-; :"], 1 << 24)
            )
            values = os.fsdecode(fields).split("\0")
            for kind, size, modified, path in zip(*[iter(values)] * 4, strict=False):
                statuses[path] = _Status(kind, int(size), int(modified))
        return statuses

    def _require(self, files: Mapping[str, Entry], parts: Mapping[str, str], there: Mapping[str, _Status]) -> None:
        """Raise ConfigError if a directory is in a file's place, or there is no room."""
        wrong = [self.targets[name] for name in files if there.get(self.targets[name], ABSENT).kind == "directory"]
        if wrong:
            raise ConfigError([f"{self.session.node}:{path}: is a directory, not a file" for path in wrong[:5]])
        missing = sum(max(0, entry.size - there.get(parts[name], ABSENT).size) for name, entry in files.items())
        root = self.progress.copied.target
        free = self.session.must("look for room", ["sh", "-c", FREE, root]).split()[-1]
        require_space(f"{self.session.node}:{root}", missing, int(free))

    def _make_directories(self) -> None:
        parents = {posixpath.dirname(path) or "." for path in self.targets.values()}
        for words in _chunks(sorted({*parents, *self.directories})):
            answer = self.session.run(["mkdir", "-p", "--", *words])
            if answer.exit_code:
                raise ConfigError([f"{self.session.node}: {answer.errors.strip()}"])

    def _send(self, name: str, entry: Entry, part: str, begin: int) -> None:
        path = self.source / name if name else self.source
        with _opened(path) as file:
            begin = begin if begin <= entry.size else 0
            digest = hashed(file, begin)
            if begin and remote_digest(self.session, part, begin) != digest.hexdigest():
                begin, digest = 0, hashlib.sha256()
                file.seek(0)
            stale = "" if begin else STALE
            modified = f"{entry.modified // SECOND}.{entry.modified % SECOND:09}"
            words = [f"{entry.mode:o}", modified, self.targets[name]]
            pieces = self._pieces(file, path, digest, entry.size - begin)
            small = list(pieces) if entry.size - begin <= PIECE else []
            if not small:
                self._write(path, ["sh", "-c", stale + WRITE, str(begin), part, "", *words], pieces)
            script = (stale + WRITE if small else "") + FINISH
            argv = ["sh", "-c", script, str(begin), part, digest.hexdigest(), *words]
            self._write(path, argv, small, patience(entry.size))

    def _pieces(self, file: Readable, path: Path, digest: "hashlib._Hash", left: int) -> Iterator[bytes]:
        while left and (piece := file.read(min(PIECE, left))):
            digest.update(piece)
            left -= len(piece)
            self.progress.count(len(piece))
            yield piece
        if left:
            raise ConfigError([f"{path}: became shorter while it was copied"], "copy it again")

    def _write(self, path: Path, argv: list[str], pieces: Iterable[bytes], seconds: float = ANSWER_SECONDS) -> None:
        try:
            self.session.write("write a file", argv, pieces, seconds)
        except CommandFailed as error:
            if f"(exit code {CHANGED} " in error.message:
                raise ConfigError([f"{path}: arrived damaged, or changed meanwhile"], "copy it again") from None
            reason = error.tail[-1] if error.tail else str(error)
            raise ConfigError([f"{self.session.node}:{argv[-1]}: cannot be written: {reason}"]) from None


def _opened(path: Path) -> BufferedReader:
    try:
        return untrusted_files.open_regular(path)
    except OSError as error:
        raise ConfigError([f"{path}: {error.strerror}"]) from error


def _chunks(words: Iterable[str]) -> Iterator[list[str]]:
    """Yield the words in lists that fit into a command."""
    chunk, size = list[str](), 0
    for word in words:
        length = len(os.fsencode(shlex.quote(word))) + 1
        if chunk and size + length > COMMAND_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append(word)
        size += length
    if chunk:
        yield chunk
