"""Channels of a connection, one for each command on a node: opened, read within bounds, and judged by the exit code."""

import contextlib
import os
import queue
import shlex
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from orchestrator.errors import LAST_LINES, NO_SPACE, CommandFailed, ConfigError, ContractError, space_hint
from orchestrator.lazy_imports import LazyModule
from orchestrator.ssh.pack_tar import CHUNK
from orchestrator.ssh.unpack_tar import Readable

if TYPE_CHECKING:
    import paramiko
else:
    paramiko = LazyModule("paramiko")

CONNECT_SECONDS = 5.0
ANSWER_BYTES = 64 << 20
NO_STATUS, ENDED_SECONDS = -1, 1.0  # of a command that was killed, or whose connection broke; for the latter to show


class Unreachable(Exception):
    """A connection to a node failed or broke; the message says why."""


def faults() -> tuple[type[Exception], ...]:
    """Return the errors of a connection that fails or breaks."""
    return OSError, EOFError, paramiko.SSHException


class ErrorOutput:
    """Standard error of a command, which a thread receives.

    Both outputs share one window, so a command whose standard error is not received cannot write to either of them.
    """

    def __init__(self, channel: "paramiko.Channel") -> None:
        self._channel, self._pieces = channel, queue.SimpleQueue[bytes]()
        threading.Thread(target=self._receive, daemon=True).start()

    def read(self, size: int, /) -> bytes:
        """Wait for the end and return at most ``size`` bytes. Raises TimeoutError if the command is silent too long."""
        content = bytearray()
        while len(content) < size and (piece := self._next_piece()):
            content += piece
        return bytes(content[:size])

    def _next_piece(self) -> bytes:
        try:
            return self._pieces.get(timeout=self._channel.gettimeout())
        except queue.Empty:
            raise TimeoutError from None

    def _receive(self) -> None:
        """Keep as much as :func:`bounded` needs, and drop the rest."""
        room = ANSWER_BYTES + 1
        with contextlib.suppress(*faults()):
            while piece := self._received():
                if kept := piece[:room]:
                    self._pieces.put(kept)
                room -= len(kept)
        self._pieces.put(b"")

    def _received(self) -> bytes:
        while True:
            with contextlib.suppress(TimeoutError):  # a command may write only to standard output for long
                return self._channel.recv_stderr(CHUNK)


@contextlib.contextmanager
def command(
    client: "paramiko.SSHClient", argv: Sequence[str], timeout: float | None
) -> "Iterator[tuple[paramiko.Channel, ErrorOutput]]":
    """Start ``argv``.

    Args:
        client: Connection to the node.
        argv: Command.
        timeout: Longest silence in seconds; None for any.

    Yields:
        The channel of the command, and its standard error.

    Raises:
        Unreachable: The connection breaks or is silent for too long, never for a local file.
        ConfigError: A local file cannot be read or written.
    """
    try:
        transport = client.get_transport()
        if transport is None:
            raise Unreachable("connection closed")
        with transport.open_session(timeout=CONNECT_SECONDS) as channel:
            channel.settimeout(timeout)
            channel.exec_command(os.fsencode(shlex.join(argv)))  # names of files may be any bytes
            yield channel, ErrorOutput(channel)
    except TimeoutError as error:
        raise Unreachable(f"`{argv[0]}` gave no answer for {timeout or 0:.0f} s") from error
    except faults() as error:
        if isinstance(error, OSError) and (error.filename or error.errno in NO_SPACE):
            problem = f"{error.filename or 'this machine'}: {error.strerror}"
            raise ConfigError([problem], space_hint(problem)) from error
        raise Unreachable(f"connection broke: {error}") from error


def bounded(node: str, file: Readable) -> bytes:
    """Read all of ``file``. Raises ContractError if the node gives too much."""
    if len(content := file.read(ANSWER_BYTES + 1)) > ANSWER_BYTES:
        raise ContractError(f"{node} sends more than {ANSWER_BYTES >> 20} MiB of answer")
    return content


def require_success(
    node: str, step: str, argv: Sequence[str], channel: "paramiko.Channel", errors: ErrorOutput, tolerated: int = 0
) -> list[str]:
    """Wait for the end of a command and require exit code 0; return the lines of its standard error.

    Args:
        node: Name of the node, for the error.
        step: Purpose of the command, for the error.
        argv: Command.
        channel: Channel of the command.
        errors: Its standard error.
        tolerated: Another exit code that is no error.

    Returns:
        The lines.

    Raises:
        CommandFailed: The exit code is another.
        EOFError: The connection broke before the exit code came.
    """
    lines = bounded(node, errors).decode(errors="replace").splitlines()
    code = exit_code(channel)
    if code not in (0, tolerated):
        raise CommandFailed(step, argv, f"exit code {code} on {node}", lines[-LAST_LINES:])
    return lines


def exit_code(channel: "paramiko.Channel") -> int:
    """Return the exit code of a command. Raises EOFError if the connection broke before it came."""
    code = channel.recv_exit_status()
    if code == NO_STATUS:
        transport = channel.get_transport()
        transport.join(ENDED_SECONDS)
        if not transport.is_active():
            raise EOFError("it ended before the command did")
    return code
