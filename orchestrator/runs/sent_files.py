"""Select the files that are sent with a script: all of its directory, without ignored files, caches and credentials."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import NamedTuple

from pathspec import GitIgnoreSpec

from orchestrator.errors import ConfigError
from orchestrator.runs import secret_files
from orchestrator.schema import bounded_files

MOST = 200 << 20  # bytes that a script's directory may have
DEEPEST = 200  # levels of directories
IGNORE = ".orchestratorignore"
LEFT_OUT = {"venv", "__pycache__", "node_modules"}


class Selected(NamedTuple):
    """Files to send by name, the reason for each that is left out, and ``directories`` that would have no files."""

    files: dict[str, Path]
    left_out: dict[str, str]
    directories: dict[str, Path]


def select(directory: Path, *secret: Path | None, wheels: Path | None = None) -> Selected:
    """Select the files of ``directory`` to send.

    Args:
        directory: Directory of a script or of a package.
        secret: Files in use that may hold passwords.
        wheels: Directory of wheels, which are sent to be installed.

    Returns:
        The files, and directories without files, among them ignored ones: scripts expect them to exist.

    Raises:
        ConfigError: The files are too large, nested too deep, or cannot be read.
    """
    selection = _Selection(directory, secret, wheels)
    with readable():
        files = {str(path.relative_to(directory)): path for path in selection.files(directory, frozenset())}
    parents = {str(above) for name in (*files, *selection.directories) for above in PurePath(name).parents}
    directories = {name: path for name, path in selection.directories.items() if name not in parents}
    return Selected(files, selection.left_out, directories)


@contextmanager
def readable() -> Iterator[None]:
    """Turn an error of a file that is sent into ConfigError, which names it."""
    try:
        yield
    except OSError as error:
        hint = "files that are sent must stay readable until the run has started"
        raise ConfigError([f"run: {error.filename}: {error.strerror}"], hint) from error


class _Selection:
    """Selection of files in ``directory``: no hidden or ignored files, caches, environments or credentials.

    A hidden file that a line of IGNORE names in full, as ``!.project-root``, is selected: programs look for such files.
    Links are followed within the directory, never out of it.
    """

    def __init__(self, directory: Path, secret: Sequence[Path | None], wheels: Path | None) -> None:
        self.root, self.directory = directory.resolve(), directory
        self.wheels = wheels.resolve() if wheels else None
        self.secret = secret_files.named(*secret)
        self.ignored, self.wanted = _patterns(directory / IGNORE)
        self.left_out, self.sizes = dict[str, str](), Counter[str]()
        self.directories = dict[str, Path]()

    def files(self, directory: Path, above: frozenset[Path]) -> Iterator[Path]:
        """Yield the files below ``directory``, never again those of a directory ``above`` it. Raises OSError."""
        ancestors = self._ancestors(directory, above)
        for entry in sorted(directory.iterdir()):
            name = str(entry.relative_to(self.directory))
            if _is_private(entry.name) and (name not in self.wanted or entry.is_dir()):
                continue
            is_directory = entry.is_dir()
            if self.ignored.match_file(f"{name}/" if is_directory else name):
                self.directories |= {name: entry} if is_directory and not self._reason(entry) else {}
                continue
            if not is_directory and not entry.is_file():  # a device, a pipe, a link to nothing
                continue
            if reason := self._reason(entry):
                self.left_out[name] = reason
            elif not is_directory:
                self._count(entry)
                yield entry
            elif entry.resolve() not in ancestors:
                self.directories[name] = entry
                yield from self.files(entry, ancestors)

    def _reason(self, entry: Path) -> str:
        """Return why ``entry`` is not sent; "" if it is sent."""
        real = entry.resolve()
        if not real.is_relative_to(self.root):
            return f"it is a link out of the directory, to {real}"
        inside = real.relative_to(self.root)
        if any(map(_is_private, inside.parts)) and str(inside) not in self.wanted:
            return f"it is a link to {real}, which is not sent"
        if real == self.wheels:
            return "it is the directory of --wheels"
        if real in self.secret:
            return "it holds credentials: the environment, --config or --env-file names it"
        return "" if entry.is_dir() else secret_files.reason(entry) or secret_files.reason(real)

    def _ancestors(self, directory: Path, above: frozenset[Path]) -> frozenset[Path]:
        """Return ``directory`` and those ``above`` it. Raises ConfigError if there are too many."""
        if len(above) > DEEPEST:
            top = self.directory / directory.relative_to(self.directory).parts[0]
            problem = f"has directories nested more than {DEEPEST} levels deep, the most that are sent"
            raise ConfigError([f"run: {top}: {problem}: list it in {IGNORE}, or move the script to its own directory"])
        return above | {directory.resolve()}

    def _count(self, path: Path) -> None:
        self.sizes[path.relative_to(self.directory).parts[0]] += path.stat().st_size
        if self.sizes.total() > MOST:
            largest = ", ".join(f"{name} ({size >> 20:,} MiB)" for name, size in self.sizes.most_common(3))
            more = f"run: {self.directory} holds more than {MOST >> 20} MiB, as counted so far in {largest}"
            raise ConfigError(
                [f"{more}: list files that the script does not need in {IGNORE}, or move it to its own directory"]
            )


def _is_private(name: str) -> bool:
    return name.startswith(".") or name in LEFT_OUT


def _patterns(path: Path) -> tuple[GitIgnoreSpec, set[str]]:
    """Read patterns in the syntax of .gitignore from ``path``, and what lines with ``!`` name. Raises ConfigError."""
    try:
        lines = bounded_files.read_text(path).splitlines()
        return GitIgnoreSpec.from_lines(lines), {line[1:].strip().lstrip("/") for line in lines if line[:1] == "!"}
    except FileNotFoundError:
        return GitIgnoreSpec.from_lines([]), set()
    except ValueError as error:
        problem = str(error) if isinstance(error, bounded_files.Unreadable) else f"{path}: {error}"
        raise ConfigError([f"run: {problem}"], "one pattern a line, as in .gitignore") from error
