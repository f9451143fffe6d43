"""Files and directories of a node, many by one command."""

import os
import posixpath
import shlex
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from orchestrator.errors import ConfigError, ContractError
from orchestrator.ssh.copying.file_times import parse_stat
from orchestrator.ssh.session import Session

COMMAND_BYTES = 60_000  # Linux: a command has 128 KiB at most
# In the language of the node, the decimal point may be a comma.
STATUS = r'LC_ALL=C stat --dereference --printf "%f\0%s\0%.9Y\0%n\0" -- "$@" 2>&-; :'
LIST = r'test ! -d "$0" || find "$0" -mindepth 1 -printf "%y%P\0"'
PRIVATE = "umask 077\n"  # as long as the mode of the source is not set
FREE = 'p=$0; while ! test -d "$p"; do p=$(dirname -- "$p"); done; df --output=avail --block-size=1 -- "$p"'


@dataclass(frozen=True)
class Status:
    """Mode with the kind as `stat` gives it, size and time (nanoseconds) of a path on the node."""

    mode: int
    size: int
    modified: int

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.mode)

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.mode)


ABSENT = Status(0, 0, 0)


def statuses(session: Session, paths: Iterable[str]) -> dict[str, Status]:
    """Return the status of those ``paths`` that are there; links are followed. Raises ContractError."""
    by_path = {}
    for words in _chunks(paths):
        fields = b"".join(session.read("look at files", ["sh", "-c", STATUS, "sh", *words], 1 << 24))
        values = os.fsdecode(fields).split("\0")
        for mode, size, modified, path in zip(*[iter(values)] * 4, strict=False):
            try:
                by_path[path] = Status(int(mode, 16), int(size), parse_stat(modified))
            except ValueError as error:
                raise ContractError(f"{session.node} describes {path} in another form: {error}") from error
    return by_path


def make_directories(session: Session, paths: Iterable[str], private: bool = False) -> None:
    """Make the directories that are missing. Raises ConfigError if the node cannot."""
    script = f'{PRIVATE if private else ""}mkdir -p -- "$@"'
    for words in _chunks(paths):
        answer = session.run(["sh", "-c", script, "sh", *words])
        if answer.exit_code:
            raise ConfigError([f"{session.node}: {answer.errors.strip()}"])


def remove_others(session: Session, root: str, kept: Mapping[str, str]) -> None:
    """Remove what is below the directory ``root`` but is not ``kept``: kind ("d" or "f") by relative name."""
    listing = b"".join(session.read("look for other files", ["sh", "-c", LIST, root], 1 << 26))
    found = [(line[:1], line[1:]) for line in os.fsdecode(listing).split("\0") if line]
    others = [posixpath.join(root, name) for kind, name in found if kept.get(name) != kind]
    for words in _chunks(others):
        session.must("remove other files", ["rm", "-rf", "--", *words])


def set_modes(session: Session, modes: Mapping[str, int], before: Mapping[str, Status]) -> None:
    """Set the modes of files and directories by path, but for those that had them ``before``: they may be another's."""
    changed = {path: mode for path, mode in modes.items() if before.get(path, ABSENT).mode & 0o777 != mode}
    for mode in set(changed.values()):
        for words in _chunks(path for path, other in changed.items() if other == mode):
            session.must("set modes", ["chmod", f"{mode:o}", "--", *words])


def free(session: Session, path: str) -> int:
    """Return the free bytes where ``path`` is, or would be made. Raises ContractError."""
    answer = session.must("look for room", ["sh", "-c", FREE, path])
    try:
        return int(answer.split()[-1])
    except (ValueError, IndexError) as error:
        raise ContractError(f"{session.node} gives the free bytes of {path} as {answer[:80]!r}") from error


def _chunks(words: Iterable[str]) -> Iterator[list[str]]:
    """Yield the words in lists that fit into a command."""
    chunk, size = list[str](), 0
    for word in words:
        length = len(os.fsencode(shlex.quote(word))) + 1
        if chunk and size + length > COMMAND_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append(word)
        size += length
    if chunk:
        yield chunk
