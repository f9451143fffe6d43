"""A connection to one node: run commands, send and fetch files."""

import contextlib
import errno
import os
import shlex
import tarfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import paramiko

from orchestrator.errors import CommandFailed, ConfigError, ContractError
from orchestrator.ssh import receive, transfer

CONNECT_SECONDS, ANSWER_SECONDS = 5.0, 120.0
ANSWER_BYTES, LINE_BYTES = 64 << 20, 1 << 20
FILE_CHANGED = 1  # tar's exit code if a file grew while it was read, as the log of an active run does
FAULTS = (OSError, EOFError, paramiko.SSHException)
NO_STATUS, ENDED_SECONDS = -1, 1.0  # of a command that was killed, or whose connection broke; for the latter to show
_OURS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # errors of local files, never of sockets


@dataclass(frozen=True)
class Answer:
    """Result of a command on a node."""

    exit_code: int
    output: str
    errors: str


class Unreachable(Exception):
    """A connection to a node failed or broke; the message says why."""


class Session:
    """A connection to one node; open it with :func:`connect`."""

    def __init__(self, node: str, client: paramiko.SSHClient) -> None:
        self.node, self._client = node, client

    def run(self, argv: Sequence[str], timeout: float = ANSWER_SECONDS) -> Answer:
        """Run ``argv`` to its end. Raises Unreachable if the connection breaks or is silent for ``timeout`` seconds."""
        with self._command(argv, timeout) as channel:
            channel.shutdown_write()
            with channel.makefile("rb") as out, channel.makefile_stderr("rb") as err:
                output, errors = self._bounded(out), self._bounded(err)
            return Answer(_exit_code(channel), output.decode(errors="replace"), errors.decode(errors="replace"))

    def _bounded(self, file: receive.Readable) -> bytes:
        """Read all of ``file``. Raises ContractError if it is too large."""
        if len(found := file.read(ANSWER_BYTES + 1)) > ANSWER_BYTES:
            raise ContractError(f"{self.node} sends more than {ANSWER_BYTES >> 20} MiB of answer")
        return found

    def must(self, step: str, argv: Sequence[str], timeout: float = ANSWER_SECONDS) -> str:
        """Run ``argv`` and require exit code 0.

        Args:
            step: Purpose of the command, for the error.
            argv: Command.
            timeout: Longest silence in seconds.

        Returns:
            The standard output.

        Raises:
            CommandFailed: The exit code is not 0.
            Unreachable: The connection breaks or is silent for too long.
        """
        answer = self.run(argv, timeout=timeout)
        if answer.exit_code:
            tail = answer.errors.strip().splitlines()[-20:]
            raise CommandFailed(step, argv, f"exit code {answer.exit_code} on {self.node}", tail)
        return answer.output

    def follow(self, argv: Sequence[str]) -> Iterator[bytes]:
        """Run ``argv`` and yield its output in pieces as it comes."""
        with self._command(argv, None) as channel:
            while piece := channel.recv(transfer.CHUNK):
                yield piece

    def read(self, step: str, argv: Sequence[str], limit: int, timeout: float = ANSWER_SECONDS) -> Iterator[bytes]:
        """Run ``argv`` and yield its output in pieces.

        Args:
            step: Purpose of the command, for errors.
            argv: Command.
            limit: Largest number of bytes.
            timeout: Longest silence in seconds.

        Yields:
            The output in pieces.

        Raises:
            ContractError: The output is larger.
            CommandFailed: The exit code is not 0.
            Unreachable: The connection breaks or is silent for too long.
        """
        with self._command(argv, timeout) as channel:
            channel.shutdown_write()
            while piece := channel.recv(transfer.WINDOW):
                limit -= len(piece)
                if limit < 0:
                    raise ContractError(f"{self.node} sends more than was requested: {step}")
                yield piece
            self._require_success(step, argv, channel)

    def write(self, step: str, argv: Sequence[str], pieces: Iterable[bytes], timeout: float = ANSWER_SECONDS) -> None:
        """Run ``argv`` with ``pieces`` as its standard input.

        Args:
            step: Purpose of the command, for the error.
            argv: Command.
            pieces: Bytes to send.
            timeout: Longest silence in seconds.

        Raises:
            CommandFailed: The exit code is not 0.
            Unreachable: The connection breaks or is silent for too long.
        """
        with self._command(argv, timeout) as channel:
            with contextlib.suppress(transfer.Refused):
                target = transfer.Input(channel)
                for piece in pieces:
                    target.write(piece)
            channel.shutdown_write()
            self._require_success(step, argv, channel)

    def converse(self, step: str, argv: Sequence[str], text: str, timeout: float = ANSWER_SECONDS) -> Generator[str]:
        """Run ``argv`` with ``text`` on its standard input, which stays open, and yield lines of output as they come.

        Its input is closed with the iterator, so that the command notices if this machine no longer waits for it.

        Args:
            step: Purpose of the command, for the error.
            argv: Command; it reads ``text`` without waiting for the end of its input.
            text: Its input.
            timeout: Longest silence in seconds.

        Yields:
            Lines of standard output.

        Raises:
            CommandFailed: The exit code is not 0.
            ContractError: A line is too long.
            Unreachable: The connection breaks or is silent for too long.
        """
        with self._command(argv, timeout) as channel, channel.makefile("rb") as output:
            with contextlib.suppress(transfer.Refused):  # its own error output says why
                transfer.Input(channel).write(text.encode())
            while line := output.readline(LINE_BYTES + 1):
                if len(line) > LINE_BYTES:
                    raise ContractError(f"{self.node} sends a line of more than {LINE_BYTES >> 20} MiB")
                yield line.decode(errors="replace")
            self._require_success(step, argv, channel)

    def send(self, files: Mapping[str, Path], directory: str, on_file: Callable[[int], None] | None = None) -> None:
        """Send local files into a directory on the node; links are followed.

        Args:
            files: Local path by name on the node.
            directory: Existing directory on the node.
            on_file: Called with the number of files sent so far.

        Raises:
            ConfigError: A local file cannot be read.
            CommandFailed: The node cannot unpack the files.
            Unreachable: The connection breaks or is silent for too long.
        """
        argv = ["tar", "--extract", "--directory", directory]
        with self._command(argv, ANSWER_SECONDS) as channel:
            with contextlib.suppress(transfer.Refused), transfer.archive(transfer.Input(channel)) as archive:
                for count, (name, path) in enumerate(files.items()):
                    archive.add(path, arcname=name, recursive=False, filter=transfer.anonymous)
                    if on_file:
                        on_file(count + 1)
            channel.shutdown_write()
            self._require_success("send files", argv, channel)

    def fetch(self, directory: str, limits: Mapping[str, int], target: Path) -> list[str]:
        """Copy files in ``directory`` on the node into the empty local directory ``target``.

        Args:
            directory: Absolute path on the node.
            limits: Largest number of bytes by name in the directory; a name with a slash at the end is a directory with
                all files below it.
            target: Local directory; remove its content after an error, since the node may be compromised.

        Returns:
            Names that are not regular files and were left out.

        Raises:
            ContractError: The node sends something else.
            CommandFailed: The node cannot send the files.
            ConfigError: A local file cannot be written.
        """
        argv = ["tar", "--create", "--hard-dereference", "--directory", directory, *limits]
        left_out, damage = list[str](), ""
        with self._command(argv, ANSWER_SECONDS) as channel, channel.makefile("rb", transfer.CHUNK) as pipe:
            try:
                left_out = receive.unpack(pipe, limits, target)
            except receive.Refused as error:
                raise ContractError(
                    f"{self.node} sends {error}", "its answer was discarded: check who controls the node"
                ) from None
            except tarfile.ReadError as error:
                damage = str(error)
            self._require_success("fetch files", argv, channel, FILE_CHANGED)  # tar says why it is cut short
        if damage:
            raise ContractError(f"{self.node} sends a damaged archive: {damage}")
        return left_out

    def _require_success(self, step: str, argv: Sequence[str], channel: paramiko.Channel, tolerated: int = 0) -> None:
        with channel.makefile_stderr("rb") as errors:
            lines = self._bounded(errors).decode(errors="replace").splitlines()
        code = _exit_code(channel)
        if code not in (0, tolerated):
            raise CommandFailed(step, argv, f"exit code {code} on {self.node}", lines[-20:])

    @contextlib.contextmanager
    def _command(self, argv: Sequence[str], timeout: float | None) -> Iterator[paramiko.Channel]:
        """Start ``argv`` and yield its channel. Raises Unreachable if the connection breaks, never for a local file."""
        try:
            transport = self._client.get_transport()
            if transport is None:
                raise Unreachable("connection closed")
            with transport.open_session(timeout=CONNECT_SECONDS) as channel:
                channel.settimeout(timeout)
                channel.exec_command(os.fsencode(shlex.join(argv)))  # names of files may be any bytes
                yield channel
        except TimeoutError as error:
            raise Unreachable(f"`{argv[0]}` gave no answer for {timeout or 0:.0f} s") from error
        except FAULTS as error:
            if isinstance(error, OSError) and (error.filename or error.errno in _OURS):
                raise ConfigError([f"{error.filename or 'this machine'}: {error.strerror}"]) from error
            raise Unreachable(f"connection broke: {error}") from error


def _exit_code(channel: paramiko.Channel) -> int:
    """Return the exit code of a command. Raises EOFError if the connection broke before it came."""
    code = channel.recv_exit_status()
    if code == NO_STATUS:
        transport = channel.get_transport()
        transport.join(ENDED_SECONDS)
        if not transport.is_active():
            raise EOFError("it ended before the command did")
    return code
