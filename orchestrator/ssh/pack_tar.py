"""Tar archives of local files for a channel. Links are followed; everything else is archived as it is."""

import io
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

from typing_extensions import Buffer

from orchestrator.errors import ConfigError

if TYPE_CHECKING:
    import paramiko

CHUNK = 1 << 16
PACKET = (1 << 15) - 64  # bytes of a packet: OpenSSH takes 32 KiB with its header
SHORTER = "unexpected end of data"  # tarfile's error, which names no file
WINDOW = 2 << 20  # bytes that paramiko takes before they are read


class Refused(Exception):
    """A command on a node ended before it had read all input; its own error output says why."""


class Input(io.RawIOBase):
    """A command's standard input as a file for tarfile; paramiko's own file for it fails when garbage-collected."""

    def __init__(self, channel: "paramiko.Channel") -> None:
        self._channel = channel

    def write(self, data: Buffer) -> int:
        """Send ``data`` to the command. Raises Refused if the command has ended."""
        view = memoryview(data)
        try:
            for begin in range(0, len(view), PACKET):  # of more, paramiko copies the rest for each packet
                self._channel.sendall(bytes(view[begin : begin + PACKET]))
        except OSError as error:
            if self._channel.exit_status_ready():
                raise Refused from error
            raise
        return len(view)


def archive(target: Input) -> tarfile.TarFile:
    """Open a tar archive for writing that stores the targets of links: the links would lead nowhere on the node."""
    return tarfile.open(fileobj=target, mode="w|", bufsize=CHUNK, dereference=True)


def add(archive: tarfile.TarFile, name: str, path: Path) -> None:
    """Archive a local file or directory as ``name``. Raises ConfigError if the file becomes shorter meanwhile."""
    try:
        archive.add(path, arcname=name, recursive=False, filter=_anonymous)
    except OSError as error:
        if str(error) == SHORTER:
            raise ConfigError([f"{path}: became shorter while it was sent"], "run the same command again") from error
        raise


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Remove the local owner and group from a member."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
