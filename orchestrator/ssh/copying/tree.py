"""Files of a directory tree, on this machine or on a node, with one rule for links: never out of the tree.

A node may be compromised: names that it lists never lead out of a directory.
"""

import os
import posixpath
import shlex
import stat
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.errors import ConfigError, ContractError
from orchestrator.ssh.channels import ANSWER_BYTES
from orchestrator.ssh.session import Session
from orchestrator.ssh.unpack_tar import DEEPEST, LONGEST, MOST_FILES

KINDS = {stat.S_IFDIR: "d", stat.S_IFREG: "f", stat.S_IFLNK: "l"}
SECOND = 10**9  # nanoseconds
UNITS: list[int] = [10**digits for digits in range(10)]  # of a time in nanoseconds, up to a second
KERNEL = ("/proc/", "/sys/")
# Type, mode, size, time and name of each entry, and the place to which a link leads; the tree's own place first.
LIST = """
readlink -zm -- "$0" && find -H "$0" -printf '%y\\0%m\\0%s\\0%T@\\0%P\\0' -type l -exec readlink -zm -- {} \\;
"""


@dataclass(frozen=True)
class Entry:
    """A file, directory ("d", "f"), link ("l", to ``target``) or something else; ``modified`` in nanoseconds."""

    kind: str
    mode: int
    size: int
    modified: int
    target: str = ""


@dataclass
class Tree:
    """Files and modes of directories by relative name, "" for the tree itself; the reason for each that is left out.

    ``root`` is its absolute path, without links.
    """

    root: str
    files: dict[str, Entry] = field(default_factory=dict)
    directories: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


def require_stored(tree: Tree, path: str, where: str, shell: str = "") -> None:
    """Raise ConfigError for files in /proc and /sys: the sizes that the kernel gives are not those of their content.

    Args:
        tree: The tree.
        path: Its path as the user gave it.
        where: The tree in the error.
        shell: Command that runs the remedy on the machine of the tree; empty for this machine.
    """
    if f"{tree.root}/".startswith(KERNEL):
        file = path if "" in tree.files else posixpath.join(path, "FILE")
        command = f"{shell}cat {shlex.quote(file)} > {shlex.quote(posixpath.basename(file))}"
        problem = "the kernel makes its content when it is read, so its size is unknown"
        raise ConfigError([f"{where}: {problem}"], f"write it into a file: `{command}`")


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
                if entry.is_dir(follow_symlinks=False):
                    yield from _names(root, name)


def _entry(path: Path) -> Entry:
    status = path.lstat()
    kind = KINDS.get(stat.S_IFMT(status.st_mode), "?")
    target = os.path.realpath(path) if kind == "l" else ""
    return Entry(kind, stat.S_IMODE(status.st_mode) & 0o777, status.st_size, status.st_mtime_ns, target)


def on_node(session: Session, path: str) -> Tree:
    """List a file or a directory of a node.

    Raises:
        ConfigError: There is no such path.
        ContractError: The node lists names that lead out of the tree.
    """
    if session.run(["test", "-e", path]).exit_code:
        raise ConfigError([f"{session.node}:{path}: no such file or directory"])
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
        if size < 0 or not _is_plain(name):
            raise ValueError(f"{name[:200]!r}")
        yield name, Entry(kind, mode & 0o777, size, nanoseconds(modified), target)


def nanoseconds(seconds: str) -> int:
    """Return a time that a node gives in seconds with a decimal point. Raises ValueError."""
    whole, _, fraction = seconds.partition(".")
    if len(whole) > 12:
        raise ValueError(f"{seconds[:200]!r}")
    return int(whole) * SECOND + int(fraction[:9].ljust(9, "0"))


def same_time(one: int, other: int) -> bool:
    """Compare times in nanoseconds, as precisely as both file systems keep them: some cut off the last digits."""
    unit = max(unit for unit in UNITS for time in (one, other) if time % unit == 0)
    return one // unit == other // unit


def _is_plain(name: str) -> bool:
    """Tell whether a name leads to a place below the tree, or is the tree's own."""
    parts = name.split("/")
    return not name or (not {"", ".", ".."} & set(parts) and len(parts) <= DEEPEST and len(name) <= LONGEST)


def resolved(entries: Mapping[str, Entry], root: str) -> Tree:
    """Follow the links among ``entries`` that stay within ``root``, but not in a circle.

    Args:
        entries: Entries by relative name; "" is the tree itself.
        root: Absolute path of the tree, without links.

    Returns:
        The tree as it is to be copied.

    Raises:
        ConfigError: There are too many files, or neither a file nor a directory is at ``root``.
    """
    if entries[""].kind not in ("d", "f"):
        raise ConfigError([f"{root}: is neither a file nor a directory"])
    walk = _Walk(entries, root)
    walk.visit("", "", frozenset())
    return walk.tree


class _Walk:
    """Walk over ``entries`` that follows links."""

    def __init__(self, entries: Mapping[str, Entry], root: str) -> None:
        self.entries, self.root, self.tree = entries, root, Tree(root)
        self.children = defaultdict[str, list[str]](list)
        for name in sorted(filter(None, entries)):
            self.children[name.rpartition("/")[0]].append(name)

    def visit(self, name: str, shown: str, above: frozenset[str]) -> None:
        """Add what is at ``name`` to the tree as ``shown``, never again a directory ``above`` it."""
        entry = self.entries[name]
        if entry.kind == "l":
            self._follow(entry.target, shown, above)
        elif entry.kind == "d":
            self.tree.directories[shown] = entry.mode
            for child in self.children[name]:
                self.visit(child, f"{shown}/{child.rpartition('/')[2]}".lstrip("/"), above | {name})
        elif entry.kind == "f":
            self.tree.files[shown] = entry
        else:
            self.tree.left_out[shown] = "it is neither a file nor a directory"
        if len(self.tree.files) + len(self.tree.directories) + len(self.tree.left_out) > MOST_FILES:
            problem = f"{self.root}: more than {MOST_FILES:,} files"
            raise ConfigError([problem], "pack them with tar, and copy the archive")

    def _follow(self, target: str, shown: str, above: frozenset[str]) -> None:
        to = _inside(target, self.root)
        if to is None:
            self.tree.left_out[shown] = f"it is a link out of the directory, to {target}"
        elif to not in self.entries:
            self.tree.left_out[shown] = f"it is a link to nothing, {target}"
        elif to not in above:
            self.visit(to, shown, above)


def _inside(path: str, root: str) -> str | None:
    """Return ``path`` relative to ``root``; None if it is not below."""
    if path == root:
        return ""
    return path.removeprefix(f"{root}/") if path.startswith(f"{root}/") else None
