"""Copy files of a node to this machine. The node may be compromised: it never writes outside the target."""

import hashlib
import os
import posixpath
from pathlib import Path
from typing import BinaryIO

from orchestrator.cluster import Cluster
from orchestrator.errors import CommandFailed, ConfigError, space_hint
from orchestrator.ssh.copying import local_files
from orchestrator.ssh.copying.continue_interrupted_copy import (
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
from orchestrator.ssh.copying.listing import on_node
from orchestrator.ssh.copying.tree import Entry, Tree, require_stored
from orchestrator.ssh.session import Session
from orchestrator.state import StateDir

DIGEST_LINE = len(hashlib.sha256().hexdigest()) + len("\n")
SEND = f'{SUM}tail -c "+$(($1 + 1))" -- "$0" | head -c "$2" && sum < "$0"'


def download(state_dir: StateDir, cluster: Cluster, node: str, source: str, target: str, progress: Progress) -> Copied:
    """Copy a file or a directory of a node to this machine.

    Args:
        state_dir: State directory of the cluster.
        cluster: Deployed cluster.
        node: Name of the node.
        source: Path on the node.
        target: Path of the copy; the copy is below it if it is a directory or ends in a slash.
        progress: State of the copy; after an interrupt it has what is kept.

    Returns:
        What was copied.

    Raises:
        ConfigError: A path cannot be used, or there is no room on this machine.
        ContractError: The node sends something else.
        NodesFailed: The node does not answer.
    """
    trees = list[Tree]()
    below = target.endswith("/") or os.path.isdir(target)  # noqa: PTH112 (Path.is_dir raises PermissionError)
    path = Path(target, _name(source)) if below else Path(target)

    def work(session: Session) -> None:
        if not trees:
            trees.append(on_node(session, source))
            shell = f"orchestrator ssh --cluster {cluster.name} {node} -- "
            require_stored(trees[0], source, f"{node}:{source}", shell)
            is_new = not below and "" in trees[0].directories and not os.path.lexists(path)
            root = _unfinished(path, f"{node}:{trees[0].root}") if is_new else path
            progress.begin(trees[0], str(path), str(root))
        try:
            _Download(session, source, Path(progress.root), progress).copy(trees[0])
            if progress.is_renamed_at_end:
                _rename(Path(progress.root), path)
        except OSError as error:
            problem = f"{error.filename or path}: {error.strerror}"
            raise ConfigError([problem], space_hint(problem)) from error

    return persist(state_dir, cluster, node, progress, work)


def _name(source: str) -> str:
    """Return the last part of a path on the node, which the user gave."""
    name = posixpath.basename(posixpath.normpath(source))
    if name in ("", ".", ".."):
        raise ConfigError([f"{source}: has no name of its own"], "name the copy: the target must not be a directory")
    return name


def _unfinished(target: Path, source: str) -> Path:
    """Return the unfinished copy of a directory. Raises ConfigError if a link has its name."""
    return local_files.below(target.parent, Path(directory_part_of(str(target), source)).name)


def _rename(part: Path, target: Path) -> None:
    """Give the complete copy of a directory its name. Raises ConfigError if the name is taken meanwhile."""
    try:
        part.rename(target)
    except OSError as error:
        problem = f"{target}: cannot be made of {part}: {error.strerror}"
        raise ConfigError([problem], f"the copy is complete in {part}: rename it") from error


class _Download:
    """Copy of the files that are not in place yet, over one connection."""

    def __init__(self, session: Session, source: str, root: Path, progress: Progress) -> None:
        self.session, self.source, self.root, self.progress = session, source, root, progress

    def copy(self, tree: Tree) -> None:
        """Copy the files of ``tree`` that are not in place yet. Raises OSError for a local file."""
        if self.progress.is_renamed_at_end:  # what the source no longer has, from an earlier command
            local_files.remove_others(self.root, kept(tree, str(self.root)))
        files = {name: entry for name, entry in tree.files.items() if name not in self.progress.done}
        targets = {name: self._target(name) for name in files}
        changed = {name: entry for name, entry in files.items() if not local_files.is_same(targets[name], entry)}
        self._require_space(changed)
        for name, entry in files.items():
            if name in changed:
                self._receive(name, entry, targets[name])
            else:
                local_files.set_mode(targets[name], entry.mode)
                self.progress.copied.same += 1
            self.progress.complete(name)
        for name, mode in tree.directories.items():
            directory = local_files.below(self.root, name)
            directory.mkdir(parents=True, exist_ok=True)
            local_files.set_mode(directory, mode | 0o700)

    def _target(self, name: str) -> Path:
        """Return the local path of a file. Raises ConfigError if it cannot be written there."""
        parent, _, last = name.rpartition("/")
        target = local_files.below(self.root, parent) / last if name else self.root
        if target.is_dir() and not target.is_symlink():
            raise ConfigError([f"{target}: is a directory, not a file"])
        return target

    def _require_space(self, files: dict[str, Entry]) -> None:
        parts = {name: local_files.size(Path(part_of(str(self.root / name), entry))) for name, entry in files.items()}
        missing = sum(max(0, entry.size - parts[name]) for name, entry in files.items())
        require_space(self.progress.copied.target, missing, local_files.free(self.root))

    def _receive(self, name: str, entry: Entry, target: Path) -> None:
        path = posixpath.join(self.source, name) if name else self.source
        part = Path(part_of(str(target), entry))
        with local_files.removed_if_empty(part, self.root):
            self._receive_part(path, entry, part, target)
            os.utime(part, ns=(entry.modified, entry.modified))
            part.replace(target)

    def _receive_part(self, path: str, entry: Entry, part: Path, target: Path) -> None:
        """Receive what is missing of ``part`` and compare it. Raises ConfigError if it differs from the node's file."""
        with os.fdopen(os.open(part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "r+b") as file:
            begin, digest = self._verified(path, file, entry)
            if not begin:
                local_files.remove_stale(target, part)
            file.truncate(begin)
            file.seek(begin)
            remote = self._write(path, entry, file, begin, digest)
            os.fchmod(file.fileno(), entry.mode)
        if remote != digest.hexdigest():
            part.unlink()
            raise ConfigError([f"{self.session.node}:{path}: arrived damaged, or changed meanwhile"], "copy it again")

    def _verified(self, path: str, file: BinaryIO, entry: Entry) -> "tuple[int, hashlib._Hash]":
        """Return the size and the SHA-256 of the partial file; the size is 0 if its bytes differ from the node's."""
        size = os.fstat(file.fileno()).st_size
        if 0 < size <= entry.size:
            digest = hashed(file, size)
            if remote_digest(self.session, path, size) == digest.hexdigest():
                return size, digest
        return 0, hashlib.sha256()

    def _write(self, path: str, entry: Entry, file: BinaryIO, begin: int, digest: "hashlib._Hash") -> str:
        """Write what is missing of the file; return the SHA-256 that the node gives for it."""
        remaining, end = entry.size - begin, b""
        argv = ["sh", "-c", SEND, path, str(begin), str(remaining)]
        try:
            for piece in self.session.read("send a file", argv, remaining + DIGEST_LINE, patience(entry.size)):
                content, end = piece[:remaining], end + piece[remaining:]
                remaining -= len(content)
                file.write(content)
                digest.update(content)
                self.progress.count(len(content))
        except CommandFailed as error:
            raise ConfigError([f"{self.session.node}:{path}: {' '.join(error.tail) or error.message}"]) from error
        return end.decode(errors="replace").strip()
