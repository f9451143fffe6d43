"""User scripts: select the files of the script's directory, which are sent."""

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.cluster import SHARED
from orchestrator.errors import ConfigError
from orchestrator.runs import sent_files
from orchestrator.runs.locate_script import locate


@dataclass(frozen=True)
class Source:
    """A script with its directory: ``command`` as run from inside it, and the ``files`` to send by relative name.

    ``left_out`` has the reason for each file that is not sent. Hidden and ignored files and caches are in neither.
    ``directories`` are created, too: they have no files that are sent.
    """

    directory: Path
    command: list[str]
    files: dict[str, Path]
    left_out: dict[str, str]
    directories: dict[str, Path] = field(default_factory=dict)

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
        argv: As for :func:`locate_script.locate`.
        secret: Files in use that may hold passwords: the configuration, settings of ranks.
        wheels: Directory of wheels, which are sent to be installed.

    Returns:
        The script with its files.

    Raises:
        ConfigError: The files are too large or cannot be read, or ``argv`` names a file that is not sent.
    """
    directory, command, name = locate(argv)
    files, left_out, directories = sent_files.select(directory, *secret, wheels=wheels)
    refused = [argument for argument in command if os.path.normpath(argument) in left_out]
    if refused:
        raise ConfigError(
            [f"run: {argument}: is not sent: {left_out[os.path.normpath(argument)]}" for argument in refused],
            _copy(directory, refused[0]),
        )
    if name and name not in files:
        raise ConfigError(
            [f"run: {name}: is not sent: it is hidden, or in {sent_files.IGNORE}"],
            f"rename it; or send it by a last line `!{name}` in {directory / sent_files.IGNORE}",
        )
    return Source(directory, command, files, left_out, directories)


def _copy(directory: Path, argument: str) -> str:
    """Return the remedy for an argument that is a link out of ``directory``; "" for another."""
    real = (directory / argument).resolve()
    if real.is_relative_to(directory.resolve()):
        return ""
    copy = shlex.join(["orchestrator", "cp", str(real), f"head:{SHARED}/"])
    return f"`{copy}` copies it, and the script finds it as {SHARED}/{real.name}"
