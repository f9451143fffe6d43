"""Files of this machine as tar archives that travel through a channel. Links are followed, nothing else is special."""

import io
import tarfile

import paramiko
from typing_extensions import Buffer

CHUNK = 1 << 16


class Refused(Exception):
    """A command on a node ended before it had read everything; why, it says itself."""


class Input(io.RawIOBase):
    """A command's standard input, for tarfile to write to. paramiko's own file for it fails when it is collected."""

    def __init__(self, channel: paramiko.Channel) -> None:
        self._channel = channel

    def write(self, data: Buffer) -> int:
        try:
            self._channel.sendall(bytes(data))
        except OSError as error:
            if self._channel.exit_status_ready():
                raise Refused from error
            raise
        return len(bytes(data))


def archive(target: Input) -> tarfile.TarFile:
    """What links lead to is sent in their place: on the node they would lead nowhere."""
    return tarfile.open(fileobj=target, mode="w|", bufsize=CHUNK, dereference=True)


def anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
