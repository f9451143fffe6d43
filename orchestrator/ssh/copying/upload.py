"""Copy files of this machine to a node."""

import hashlib
import os
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from io import BufferedReader
from pathlib import Path

from orchestrator import untrusted_files
from orchestrator.cluster import Cluster
from orchestrator.errors import CommandFailed, ConfigError, space_hint
from orchestrator.ssh.copying import node_files
from orchestrator.ssh.copying.continue_interrupted_copy import (
    PIECE,
    SUM,
    directory_part_of,
    hashed,
    kept,
    part_of,
    patience,
    remote_digest,
    require_space,
)
from orchestrator.ssh.copying.copy_progress import Copied, Progress, persist
from orchestrator.ssh.copying.file_times import as_seconds, same_time
from orchestrator.ssh.copying.listing import of_path
from orchestrator.ssh.copying.node_files import ABSENT, PRIVATE, Status
from orchestrator.ssh.copying.tree import Entry, Tree, require_stored
from orchestrator.ssh.session import ANSWER_SECONDS, Session
from orchestrator.state import StateDir

CHANGED = 9
# $0 begin, $1 unfinished copy, $2 SHA-256, $3 mode, $4 time, $5 target; a connection that broke may still be writing,
# so each byte has its place.
STALE = 'rm -f -- "${1%.????????????.part}".????????????.part\n'
WRITE = f'{PRIVATE}dd of="$1" bs=1M iflag=fullblock oflag=seek_bytes conv=notrunc status=none seek="$0" || exit 1\n'
FINISH = f"""{SUM}
test "$(sum < "$1")" = "$2" || {{ rm -f -- "$1"; exit {CHANGED}; }}
chmod "$3" -- "$1" && touch -d "@$4" -- "$1" && mv -fT -- "$1" "$5"
"""
IS_NEW = '! test -e "$0" && ! test -L "$0"'
IS_RENAMED = '! test -e "$0" && test -d "$1"'


def upload(state_dir: StateDir, cluster: Cluster, source: Path, node: str, target: str, progress: Progress) -> Copied:
    """Copy a file or a directory to a node.

    Args:
        state_dir: State directory of the cluster.
        cluster: Deployed cluster.
        source: File or directory of this machine.
        node: Name of the node.
        target: Path of the copy; the copy is below it if it is a directory or ends in a slash.
        progress: State of the copy; after an interrupt it has what is kept.

    Returns:
        What was copied.

    Raises:
        ConfigError: A path cannot be used, or there is no room on the node.
        NodesFailed: The node does not answer.
    """
    tree = of_path(source)
    require_stored(tree, str(source), str(source))
    name = source.absolute().name if source.name not in ("", "..") else source.resolve().name

    def work(session: Session) -> None:
        if not progress.copied.target:
            below = target.endswith("/") or session.run(["test", "-d", target]).exit_code == 0
            path = posixpath.join(target, name) if below else target
            progress.begin(tree, path, path if below else _root(session, tree, path))
        elif _is_renamed(session, progress):  # over a connection that broke before its answer
            return
        _Upload(session, source, tree, progress).copy()
        if progress.is_renamed_at_end:
            _rename(session, progress)

    return persist(state_dir, cluster, node, progress, work)


def _root(session: Session, tree: Tree, target: str) -> str:
    """Return where to write the files of ``tree``: the unfinished copy if ``target`` becomes a new directory."""
    if "" not in tree.directories or posixpath.basename(target) in (".", ".."):
        return target
    is_new = session.run(["sh", "-c", IS_NEW, target]).exit_code == 0
    return directory_part_of(target, tree.root) if is_new else target


def _is_renamed(session: Session, progress: Progress) -> bool:
    paths = [progress.root, progress.copied.target]
    return progress.is_renamed_at_end and session.run(["sh", "-c", IS_RENAMED, *paths]).exit_code == 0


def _rename(session: Session, progress: Progress) -> None:
    """Give the complete copy of a directory its name. Raises ConfigError if the name is taken meanwhile."""
    answer = session.run(["mv", "-T", "--", progress.root, progress.copied.target])
    if answer.exit_code:
        remedy = f"the copy is complete in {session.node}:{progress.root}: rename it there"
        raise ConfigError([f"{session.node}: {answer.errors.strip()}"], remedy)


class _Upload:
    """Copy of the files that are not in place yet, over one connection."""

    def __init__(self, session: Session, source: Path, tree: Tree, progress: Progress) -> None:
        self.session, self.source, self.tree, self.progress = session, source, tree, progress
        root = progress.root
        self.targets = {name: posixpath.join(root, name) if name else root for name in tree.files}
        self.directories = {posixpath.join(root, name): mode | 0o700 for name, mode in tree.directories.items()}

    def copy(self) -> None:
        """Copy the files that are not in place yet."""
        if self.progress.is_renamed_at_end:  # what the source no longer has, from an earlier command
            node_files.remove_others(self.session, self.progress.root, kept(self.tree, self.progress.root))
        files = {name: entry for name, entry in self.tree.files.items() if name not in self.progress.done}
        parts = {name: part_of(self.targets[name], entry) for name, entry in files.items()}
        paths = [path for name in files for path in (self.targets[name], parts[name])]
        statuses = node_files.statuses(self.session, [*paths, *self.directories])
        same = {name: entry for name, entry in files.items() if _is_same(statuses.get(self.targets[name]), entry)}
        changed = {name: entry for name, entry in files.items() if name not in same}
        self._require(changed, parts, statuses)
        node_files.make_directories(self.session, [posixpath.dirname(self.progress.root) or "."])
        node_files.make_directories(self.session, sorted(self.directories), private=True)
        self._keep(same, statuses)
        for name, entry in changed.items():
            self._send(name, entry, parts[name], statuses.get(parts[name], ABSENT).size)
            self.progress.complete(name)
        node_files.set_modes(self.session, self.directories, statuses)

    def _keep(self, same: Mapping[str, Entry], statuses: Mapping[str, Status]) -> None:
        """Give files that are in place the modes of their sources."""
        modes = {self.targets[name]: entry.mode for name, entry in same.items()}
        node_files.set_modes(self.session, modes, statuses)
        for name in same:
            self.progress.copied.same += 1
            self.progress.complete(name)

    def _require(self, files: Mapping[str, Entry], parts: Mapping[str, str], statuses: Mapping[str, Status]) -> None:
        """Raise ConfigError if a directory is in a file's place, or there is no room."""
        wrong = [self.targets[name] for name in files if statuses.get(self.targets[name], ABSENT).is_directory]
        if wrong:
            raise ConfigError([f"{self.session.node}:{path}: is a directory, not a file" for path in wrong[:5]])
        missing = sum(max(0, entry.size - statuses.get(parts[name], ABSENT).size) for name, entry in files.items())
        where = f"{self.session.node}:{self.progress.copied.target}"
        require_space(where, missing, node_files.free(self.session, self.progress.root))

    def _send(self, name: str, entry: Entry, part: str, begin: int) -> None:
        path = self.source / name if name else self.source
        with _opened(path) as file:
            begin = begin if begin <= entry.size else 0
            _require_unchanged(file, path, entry)
            digest = hashed(file, begin)
            if begin and remote_digest(self.session, part, begin) != digest.hexdigest():
                begin, digest = 0, hashlib.sha256()
                file.seek(0)
            self.progress.begin_file(begin)
            stale = "" if begin else STALE
            words = [f"{entry.mode:o}", as_seconds(entry.modified), self.targets[name]]
            pieces = self._pieces(file, path, entry, digest)
            small = list(pieces) if entry.size - begin <= PIECE else []
            if not small:
                self._write(path, ["sh", "-c", stale + WRITE, str(begin), part, "", *words], self._counted(pieces))
            script = (stale + WRITE if small else "") + FINISH
            argv = ["sh", "-c", script, str(begin), part, digest.hexdigest(), *words]
            self._write(path, argv, small, patience(entry.size))
            self.progress.count(sum(map(len, small)))

    def _pieces(self, file: BufferedReader, path: Path, entry: Entry, digest: "hashlib._Hash") -> Iterator[bytes]:
        remaining = entry.size - file.tell()
        while remaining and (piece := file.read(min(PIECE, remaining))):
            digest.update(piece)
            remaining -= len(piece)
            yield piece
        if remaining:
            raise _changed(path)
        _require_unchanged(file, path, entry)

    def _counted(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            yield piece
            self.progress.count(len(piece))  # sent: the next piece is asked for

    def _write(self, path: Path, argv: list[str], pieces: Iterable[bytes], seconds: float = ANSWER_SECONDS) -> None:
        try:
            self.session.write("write a file", argv, pieces, seconds)
        except CommandFailed as error:
            if f"(exit code {CHANGED} " in error.message:
                raise _changed(path) from None
            reason = error.tail[-1] if error.tail else str(error)
            problem = f"{self.session.node}:{argv[-1]}: cannot be written: {reason}"
            raise ConfigError([problem], space_hint(reason)) from None


def _is_same(status: Status | None, entry: Entry) -> bool:
    if status is None or not status.is_file:
        return False
    return status.size == entry.size and same_time(status.modified, entry.modified)


def _require_unchanged(file: BufferedReader, path: Path, entry: Entry) -> None:
    """Raise ConfigError if the file is no longer as it was listed."""
    status = os.fstat(file.fileno())
    if (status.st_size, status.st_mtime_ns) != (entry.size, entry.modified):
        raise _changed(path)


def _changed(path: Path) -> ConfigError:
    return ConfigError([f"{path}: arrived damaged, or changed meanwhile"], "copy it again")


def _opened(path: Path) -> BufferedReader:
    try:
        return untrusted_files.open_regular(path)
    except OSError as error:
        raise ConfigError([f"{path}: {error.strerror}"]) from error
