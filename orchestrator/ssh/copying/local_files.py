"""Files and directories of this machine that a copy writes: never through links, and without empty ones if it fails."""

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from orchestrator.errors import ConfigError
from orchestrator.ssh.copying.file_times import same_time
from orchestrator.ssh.copying.tree import Entry


def below(root: Path, name: str) -> Path:
    """Return the directory ``name`` below ``root``. Raises ConfigError if a link here leads elsewhere."""
    path = root / name
    if os.path.realpath(path) != str(Path(os.path.realpath(root), name)):
        raise ConfigError(
            [f"{path}: is a link, and files are not written through links"], "remove it, or copy to another path"
        )
    return path


def is_same(target: Path, entry: Entry) -> bool:
    """Tell whether the size and the time of the file ``target`` are those of ``entry``."""
    if not target.is_file() or target.is_symlink():
        return False
    status = target.stat()
    return status.st_size == entry.size and same_time(status.st_mtime_ns, entry.modified)


def size(path: Path) -> int:
    """Return the size of a file, 0 if there is none."""
    return path.stat().st_size if path.is_file() else 0


def free(path: Path) -> int:
    """Return the free bytes where ``path`` is, or would be made."""
    existing = next(parent for parent in (path, *path.absolute().parents) if parent.is_dir())
    return shutil.disk_usage(existing).free


def set_mode(path: Path, mode: int) -> None:
    """Set the mode of a file or directory unless it has that mode: another user may own it."""
    if path.stat().st_mode & 0o777 != mode:
        path.chmod(mode)


@contextlib.contextmanager
def removed_if_empty(part: Path, root: Path) -> Iterator[None]:
    """Make the directory of ``part``; after a failure, remove an empty ``part`` and the directories made for it.

    Those of the tree ``root`` are private as long as the modes of their sources are not set.
    """
    made = [path for path in part.parents if not path.exists()]
    try:
        for path in reversed(made):
            path.mkdir(0o700 if path.is_relative_to(root) else 0o777, exist_ok=True)
        yield
    except BaseException:
        with contextlib.suppress(OSError):  # a directory that is not empty stays
            if part.is_file() and not part.is_symlink() and not size(part):
                part.unlink()
            for path in made:
                path.rmdir()
        raise


def remove_others(root: Path, kept: Mapping[str, str]) -> None:
    """Remove what is below the directory ``root`` but is not ``kept``: kind ("d" or "f") by relative name."""
    for directory, names, files in os.walk(root):
        for name in [*names, *files]:
            path = Path(directory, name)
            kind = "l" if path.is_symlink() else "d" if path.is_dir() else "f"
            if kept.get(str(path.relative_to(root))) == kind:
                continue
            if kind == "d":
                shutil.rmtree(path)
                names.remove(name)
            else:
                path.unlink()


def remove_stale(target: Path, part: Path) -> None:
    """Remove unfinished copies of what the source was before."""
    identity = len(".123456789012.part")
    for path in target.parent.iterdir():
        is_part = path.name[:-identity] == part.name[:-identity] and path.name.endswith(".part")
        if is_part and path != part and not path.is_dir():  # a directory is another copy
            path.unlink()
