"""Files of a directory tree, with one rule for links: they are followed, but never out of the tree."""

import posixpath
import shlex
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from orchestrator.errors import ConfigError
from orchestrator.ssh.unpack_tar import DEEPEST, MOST_FILES

KERNEL = ("/proc/", "/sys/")


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


def resolved(entries: Mapping[str, Entry], root: str) -> Tree:
    """Follow the links among ``entries`` that stay within ``root``, but not in a circle.

    Args:
        entries: Entries by relative name; "" is the tree itself.
        root: Absolute path of the tree, without links.

    Returns:
        The tree as it is to be copied.

    Raises:
        ConfigError: There are too many files, directories are nested too deep, or ``root`` is neither a file nor a
            directory.
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
        if shown.count("/") >= DEEPEST:
            raise self._too_large(f"directories are nested more than {DEEPEST} deep")
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
            raise self._too_large(f"more than {MOST_FILES:,} files")

    def _too_large(self, problem: str) -> ConfigError:
        return ConfigError([f"{self.root}: {problem}"], "pack them with tar, and copy the archive")

    def _follow(self, target: str, shown: str, above: frozenset[str]) -> None:
        to = _inside(target, self.root)
        if to is None:
            self.tree.left_out[shown] = f"it is a link out of the directory, to {target}"
        elif to not in self.entries or self.entries[to].kind == "l":  # the latter leads to itself
            self.tree.left_out[shown] = f"it is a link to nothing, {target}"
        elif to not in above:
            self.visit(to, shown, above)


def _inside(path: str, root: str) -> str | None:
    """Return ``path`` relative to ``root``; None if it is not below."""
    if path == root:
        return ""
    return path.removeprefix(f"{root}/") if path.startswith(f"{root}/") else None
