"""Select the files that are sent with a script: all of its directory, without ignored files, caches and credentials."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import NamedTuple

from pathspec import GitIgnoreSpec

from orchestrator.errors import ConfigError
from orchestrator.runs import secret_files
from orchestrator.schema import bounded_files

MOST = 200 << 20  # bytes that a script's directory may have
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
        ConfigError: The files are too large or cannot be read.
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

    Links are followed within the directory, never out of it.
    """

    def __init__(self, directory: Path, secret: Sequence[Path | None], wheels: Path | None) -> None:
        self.root, self.directory = directory.resolve(), directory
        self.wheels = wheels.resolve() if wheels else None
        self.secret, self.ignored = secret_files.named(*secret), _ignored(directory / IGNORE)
        self.left_out, self.size = dict[str, str](), 0
        self.directories = dict[str, Path]()

    def files(self, directory: Path, above: frozenset[Path]) -> Iterator[Path]:
        """Yield the files below ``directory``, never again those of a directory ``above`` it. Raises OSError."""
        ancestors = above | {directory.resolve()}
        for entry in sorted(directory.iterdir()):
            if _is_private(entry.name):
                continue
            name, is_directory = str(entry.relative_to(self.directory)), entry.is_dir()
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
        if any(_is_private(part) for part in real.relative_to(self.root).parts):
            return f"it is a link to {real}, which is not sent"
        if real == self.wheels:
            return "it is the directory of --wheels"
        if real in self.secret:
            return "it holds credentials: the environment, --config or --env-file names it"
        return "" if entry.is_dir() else secret_files.reason(entry) or secret_files.reason(real)

    def _count(self, path: Path) -> None:
        self.size += path.stat().st_size
        if self.size > MOST:
            more = f"run: {self.directory} holds more than {MOST >> 20} MiB"
            raise ConfigError(
                [f"{more}: list files that the script does not need in {IGNORE}, or move it to its own directory"]
            )


def _is_private(name: str) -> bool:
    return name.startswith(".") or name in LEFT_OUT


def _ignored(path: Path) -> GitIgnoreSpec:
    """Read patterns in the syntax of .gitignore from ``path``. Raises ConfigError."""
    try:
        return GitIgnoreSpec.from_lines(bounded_files.read_text(path).splitlines())
    except FileNotFoundError:
        return GitIgnoreSpec.from_lines([])
    except ValueError as error:
        problem = str(error) if isinstance(error, bounded_files.Unreadable) else f"{path}: {error}"
        raise ConfigError([f"run: {problem}"], "one pattern a line, as in .gitignore") from error
