"""A script of the user's own: where it lives, what of that directory is sent, and the command as it reads there."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

from orchestrator import credentials
from orchestrator.errors import ConfigError
from orchestrator.schema import bounded

MOST = 200 << 20  # bytes that a script's directory may have
IGNORE = ".orchestratorignore"
LEFT_OUT = {"venv", "__pycache__", "node_modules"}


def locate(argv: Sequence[str]) -> tuple[Path, list[str]]:
    """The directory to send, and the command as it reads from inside it.

    The script is the first argument that ends in .py or is a file here; ``python -m module`` sends this directory.
    Raises ConfigError where there is none, or none that can be executed.
    """
    if not argv:
        raise ConfigError(["run: nothing to run: `orchestrator run -- python my_script.py`"])
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
    """Where it is code rather than a name, it may be too long to be looked for."""
    with suppress(OSError):
        return path.is_file()
    return False


@dataclass(frozen=True)
class Source:
    """A script with its directory: ``command`` reads as it does from inside it, ``files`` are sent, by relative name.

    ``left_out`` says of files that are not sent why not; what is hidden, ignored, or a cache, is in neither.
    """

    directory: Path
    command: list[str]
    files: dict[str, Path]
    left_out: dict[str, str]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(path.stat().st_size for path in self.files.values())

    def __str__(self) -> str:
        count = len(self.files)
        return f"{count} file{'s' if count != 1 else ''}, {self.size:,} bytes, of {self.directory}"


def gather(argv: Sequence[str], config: Path | None = None) -> Source:
    """The script that ``argv`` runs, and what is sent with it.

    Args:
        argv: As for :func:`locate`.
        config: The configuration file in use, which may hold passwords.

    Raises:
        ConfigError: It is too much, cannot be read, or ``argv`` names a file that is not sent.
    """
    directory, command = locate(argv)
    survey = _Survey(directory, config)
    try:
        files = {str(path.relative_to(directory)): path for path in survey.files(directory, frozenset())}
    except OSError as error:
        raise ConfigError([f"run: {error.filename}: {error.strerror}"]) from error
    refused = [argument for argument in command if os.path.normpath(argument) in survey.left_out]
    if refused:
        raise ConfigError([f"run: {one}: is not sent: {survey.left_out[os.path.normpath(one)]}" for one in refused])
    return Source(directory, command, files, survey.left_out)


class _Survey:
    """What is sent of ``directory``: nothing hidden or ignored, no caches, no environments, no credentials.

    Links are followed within it, and never out of it.
    """

    def __init__(self, directory: Path, config: Path | None) -> None:
        self.root, self.directory = directory.resolve(), directory
        self.secret, self.ignored = credentials.named(config), _ignored(directory / IGNORE)
        self.left_out, self.size = dict[str, str](), 0

    def files(self, directory: Path, above: frozenset[Path]) -> Iterator[Path]:
        """Those below ``directory``, but never of a directory that we came from. Raises OSError."""
        here = above | {directory.resolve()}
        for entry in sorted(directory.iterdir()):
            name, is_directory = str(entry.relative_to(self.directory)), entry.is_dir()
            if _is_private(entry.name) or self.ignored.match_file(f"{name}/" if is_directory else name):
                continue
            if not is_directory and not entry.is_file():  # a device, a pipe, a link to nothing
                continue
            if reason := self._reason(entry):
                self.left_out[name] = reason
            elif is_directory:
                yield from self.files(entry, here) if entry.resolve() not in here else ()
            else:
                self._count(entry)
                yield entry

    def _reason(self, entry: Path) -> str:
        """Why ``entry`` is not sent; "" if it is."""
        real = entry.resolve()
        if not real.is_relative_to(self.root):
            return f"it is a link out of the directory, to {real}"
        if any(_is_private(part) for part in real.relative_to(self.root).parts):
            return f"it is a link to {real}, which is not sent"
        if real in self.secret:
            return "it holds credentials: the environment or --config names it"
        return "" if entry.is_dir() else credentials.found(entry) or credentials.found(real)

    def _count(self, path: Path) -> None:
        self.size += path.stat().st_size
        if self.size > MOST:
            more = f"run: {self.directory} holds more than {MOST >> 20} MiB"
            raise ConfigError([f"{more}: list what the script does not need in {IGNORE}, or give it its own directory"])


def _is_private(name: str) -> bool:
    return name.startswith(".") or name in LEFT_OUT


def _ignored(path: Path) -> GitIgnoreSpec:
    """The patterns of ``path``, which are those of .gitignore. Raises ConfigError."""
    try:
        return GitIgnoreSpec.from_lines(bounded.read_text(path).splitlines())
    except FileNotFoundError:
        return GitIgnoreSpec.from_lines([])
    except ValueError as error:
        problem = str(error) if isinstance(error, bounded.Unreadable) else f"{path}: {error}"
        raise ConfigError([f"run: {problem}"], "one pattern a line, as in .gitignore") from error
