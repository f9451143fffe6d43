"""User scripts: locate the script, and adapt the command to its directory, which is sent."""

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import ConfigError
from orchestrator.runs import sent_files

LAUNCHERS = {"horovodrun", "mpirun", "mpiexec", "torchrun"}


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
            inside = path.name if position and not path.name.startswith("-") else f"./{path.name}"
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
        """Return the bytes of all files. Raises ConfigError if one cannot be read any more."""
        with sent_files.readable():
            return sum(path.stat().st_size for path in self.files.values())

    def __str__(self) -> str:
        count = len(self.files)
        return f"{count} file{'s' if count != 1 else ''}, {self.size:,} bytes, of {self.directory}"


def gather(argv: Sequence[str], *secret: Path | None, wheels: Path | None = None) -> Source:
    """Select the files to send with the script that ``argv`` runs.

    Args:
        argv: As for :func:`locate`.
        secret: Files in use that may hold passwords: the configuration, settings of ranks.
        wheels: Directory of wheels, which are sent to be installed.

    Returns:
        The script with its files.

    Raises:
        ConfigError: The files are too large or cannot be read, or ``argv`` names a file that is not sent.
    """
    directory, command = locate(argv)
    files, left_out = sent_files.select(directory, *secret, wheels=wheels)
    refused = [argument for argument in command if os.path.normpath(argument) in left_out]
    if refused:
        raise ConfigError(
            [f"run: {argument}: is not sent: {left_out[os.path.normpath(argument)]}" for argument in refused]
        )
    return Source(directory, command, files, left_out)
