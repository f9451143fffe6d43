"""User scripts: locate the script, select the files of its directory to send, and adapt the command."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

from orchestrator.errors import ConfigError
from orchestrator.runs import secret_files
from orchestrator.schema import bounded_files

MOST = 200 << 20  # bytes that a script's directory may have
IGNORE = ".orchestratorignore"
LAUNCHERS = {"horovodrun", "mpirun", "mpiexec", "torchrun"}
LEFT_OUT = {"venv", "__pycache__", "node_modules"}


def locate(argv: Sequence[str]) -> tuple[Path, list[str]]:
    """Locate the script that ``argv`` runs; return the directory to send, and the command as run from inside it.

    The script is the first argument that ends in .py or is a local file; ``python -m module`` sends the current
    directory. Raises ConfigError if there is no script, it cannot be executed, or a launcher is named.
    """
    if not argv:
        raise ConfigError(["run: nothing to run: `orchestrator run -- python my_script.py`"])
    if argv[0] in LAUNCHERS:
        problem = f"run: {argv[0]}: is a launcher, and `run` starts every rank itself: leave it and its options out"
        raise ConfigError([problem], "`orchestrator run --np 2 -- python my_script.py`; --launcher names a launcher")
    for position, argument in enumerate(argv):
        if argument == "-m":
            return Path.cwd(), list(argv)
        path = Path(argument)
        if _is_file(path) and (position or "/" in argument or not shutil.which(argument)):
            inside = path.name if position else f"./{path.name}"
            if not position and not os.access(path, os.X_OK):
                how = f"orchestrator run -- python {argument}" if path.suffix == ".py" else f"chmod +x {argument}"
                raise ConfigError([f"run: {argument}: is not executable: `{how}`"])
            return path.absolute().parent, [*argv[:position], inside, *argv[position + 1 :]]
        if path.suffix == ".py":
            raise ConfigError([f"run: {argument}: no such file"])
    raise ConfigError(
        [f"run: no script in `{' '.join(argv)}`: name one, as in `orchestrator run -- python my_script.py`"]
    )


def _is_file(path: Path) -> bool:
    """Tell whether ``path`` is a file; code passed as an argument may be too long for a path."""
    with suppress(OSError):
        return path.is_file()
    return False


@dataclass(frozen=True)
class Source:
    """A script with its directory: ``command`` as run from inside it, and the ``files`` to send by relative name.

    ``left_out`` has the reason for each file that is not sent. Hidden and ignored files and caches are in neither.
    """

    directory: Path
    command: list[str]
    files: dict[str, Path]
    left_out: dict[str, str]

    @property
    def size(self) -> int:
        """Return the bytes of all files."""
        return sum(path.stat().st_size for path in self.files.values())

    def __str__(self) -> str:
        count = len(self.files)
        return f"{count} file{'s' if count != 1 else ''}, {self.size:,} bytes, of {self.directory}"


def gather(argv: Sequence[str], *secret: Path | None) -> Source:
    """Select the files to send with the script that ``argv`` runs.

    Args:
        argv: As for :func:`locate`.
        secret: Files in use that may hold passwords: the configuration, settings of ranks.

    Returns:
        The script with its files.

    Raises:
        ConfigError: The files are too large or cannot be read, or ``argv`` names a file that is not sent.
    """
    directory, command = locate(argv)
    files, left_out = select(directory, *secret)
    refused = [argument for argument in command if os.path.normpath(argument) in left_out]
    if refused:
        raise ConfigError(
            [f"run: {argument}: is not sent: {left_out[os.path.normpath(argument)]}" for argument in refused]
        )
    return Source(directory, command, files, left_out)


def select(directory: Path, *secret: Path | None) -> tuple[dict[str, Path], dict[str, str]]:
    """Select the files of ``directory`` to send; return them, and the reason for each that is left out, by name.

    Raises ConfigError if they are too large or cannot be read. ``secret`` is as for :func:`gather`.
    """
    survey = _Survey(directory, secret)
    try:
        files = {str(path.relative_to(directory)): path for path in survey.files(directory, frozenset())}
    except OSError as error:
        raise ConfigError([f"run: {error.filename}: {error.strerror}"]) from error
    return files, survey.left_out


class _Survey:
    """Selection of files in ``directory``: no hidden or ignored files, caches, environments or credentials.

    Links are followed within the directory, never out of it.
    """

    def __init__(self, directory: Path, secret: Sequence[Path | None]) -> None:
        self.root, self.directory = directory.resolve(), directory
        self.secret, self.ignored = secret_files.named(*secret), _ignored(directory / IGNORE)
        self.left_out, self.size = dict[str, str](), 0

    def files(self, directory: Path, above: frozenset[Path]) -> Iterator[Path]:
        """Yield the files below ``directory``, never again those of a directory ``above`` it. Raises OSError."""
        ancestors = above | {directory.resolve()}
        for entry in sorted(directory.iterdir()):
            name, is_directory = str(entry.relative_to(self.directory)), entry.is_dir()
            if _is_private(entry.name) or self.ignored.match_file(f"{name}/" if is_directory else name):
                continue
            if not is_directory and not entry.is_file():  # a device, a pipe, a link to nothing
                continue
            if reason := self._reason(entry):
                self.left_out[name] = reason
            elif is_directory:
                yield from self.files(entry, ancestors) if entry.resolve() not in ancestors else ()
            else:
                self._count(entry)
                yield entry

    def _reason(self, entry: Path) -> str:
        """Return why ``entry`` is not sent; "" if it is sent."""
        real = entry.resolve()
        if not real.is_relative_to(self.root):
            return f"it is a link out of the directory, to {real}"
        if any(_is_private(part) for part in real.relative_to(self.root).parts):
            return f"it is a link to {real}, which is not sent"
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
