"""List a directory tree, on this machine or on a node.

A node may be compromised: names that it lists never lead out of a directory.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from orchestrator.errors import ConfigError, ContractError
from orchestrator.ssh.channels import ANSWER_BYTES
from orchestrator.ssh.copying.file_times import parse_find
from orchestrator.ssh.copying.tree import Entry, Tree, resolved
from orchestrator.ssh.session import Session
from orchestrator.ssh.unpack_tar import DEEPEST, LONGEST

KINDS = {stat.S_IFDIR: "d", stat.S_IFREG: "f", stat.S_IFLNK: "l"}
LARGEST = 1 << 63  # bytes: no file system stores as many in a file
# Type, mode, size, time and name of each entry, and the place to which a link leads; the tree's own place first.
LIST = """
readlink -zm -- "$0" && find -H "$0" -printf '%y\\0%m\\0%s\\0%T@\\0%P\\0' -type l -exec readlink -zm -- {} \\;
"""


def of_path(path: Path) -> Tree:
    """List a file or a directory of this machine. Raises ConfigError."""
    try:
        root = os.path.realpath(path, strict=True)
        return resolved({name: _entry(Path(root, name)) for name in ["", *_names(root, "")]}, root)
    except OSError as error:
        raise ConfigError([f"{error.filename or path}: {error.strerror}"]) from error


def _names(root: str, directory: str) -> Iterator[str]:
    if directory or Path(root).is_dir():
        with os.scandir(Path(root, directory)) as entries:
            for entry in entries:
                name = f"{directory}/{entry.name}" if directory else entry.name
                yield name
                if entry.is_dir(follow_symlinks=False) and name.count("/") < DEEPEST:  # deeper ones are refused later
                    yield from _names(root, name)


def _entry(path: Path) -> Entry:
    status = path.lstat()
    kind = KINDS.get(stat.S_IFMT(status.st_mode), "?")
    target = os.path.realpath(path) if kind == "l" else ""
    return Entry(kind, stat.S_IMODE(status.st_mode) & 0o777, status.st_size, status.st_mtime_ns, target)


def on_node(session: Session, path: str) -> Tree:
    """List a file or a directory of a node.

    Raises:
        ConfigError: There is no such path, or it may not be read.
        ContractError: The node lists names that lead out of the tree.
    """
    answer = session.run(["stat", "--dereference", "--printf", "", "--", path])
    if answer.exit_code:
        raise ConfigError([f"{session.node}:{path}: {answer.errors.strip().rpartition(': ')[2]}"])
    output = b"".join(session.read("list files", ["sh", "-c", LIST, path], ANSWER_BYTES))
    return of_listing(output, f"{session.node} lists files of {path}")


def of_listing(output: bytes, what: str) -> Tree:
    """Return the tree that a node lists. Raises ContractError, or ConfigError as :func:`resolved` does."""
    fields = iter(os.fsdecode(output).split("\0"))
    try:
        root = next(fields)
        return resolved(dict(_listed(fields)), root)
    except (ValueError, StopIteration, RuntimeError, KeyError) as error:
        raise ContractError(f"{what} in another form: {error}") from error


def _listed(fields: Iterator[str]) -> Iterator[tuple[str, Entry]]:
    while kind := next(fields):
        mode, size, modified, name = int(next(fields), 8), int(next(fields)), next(fields), next(fields)
        target = next(fields) if kind == "l" else ""
        if not 0 <= size < LARGEST or not _is_plain(name):
            raise ValueError(f"{name[:200]!r}")
        yield name, Entry(kind, mode & 0o777, size, parse_find(modified), target)


def _is_plain(name: str) -> bool:
    """Tell whether a name leads to a place below the tree, or is the tree's own."""
    parts = name.split("/")
    return not name or (not {"", ".", ".."} & set(parts) and len(parts) <= DEEPEST and len(name) <= LONGEST)
