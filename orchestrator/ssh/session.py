"""A connection to one node: run commands, send and fetch files."""

import contextlib
import re
import tarfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.errors import LAST_LINES, CommandFailed, ContractError
from orchestrator.ssh import channels, pack_tar, unpack_tar

if TYPE_CHECKING:
    import paramiko

ANSWER_SECONDS = 120.0
SILENT_SECONDS = 30.0  # without output of a command that is followed; then the connection is checked
LINE_BYTES = 1 << 20
UNREADABLE = re.compile(r"tar: (.+): [^:]+: [^:]+: [^:]+")  # "Warning: Cannot open: Permission denied" in any language
FILE_CHANGED = 1  # tar's exit code if a file grew while it was read, as the log of an active run does


@dataclass(frozen=True)
class Answer:
    """Result of a command on a node."""

    exit_code: int
    output: str
    errors: str


class Session:
    """A connection to one node; open it with :func:`connect`."""

    def __init__(self, node: str, client: "paramiko.SSHClient") -> None:
        self.node, self._client = node, client

    def run(self, argv: Sequence[str], timeout: float = ANSWER_SECONDS) -> Answer:
        """Run ``argv`` to its end. Raises Unreachable if the connection breaks or is silent for ``timeout`` seconds."""
        with channels.command(self._client, argv, timeout) as (channel, error_output):
            channel.shutdown_write()
            with channel.makefile("rb") as file:
                output, errors = channels.bounded(self.node, file), channels.bounded(self.node, error_output)
            return Answer(channels.exit_code(channel), output.decode(errors="replace"), errors.decode(errors="replace"))

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
            tail = answer.errors.strip().splitlines()[-LAST_LINES:]
            raise CommandFailed(step, argv, f"exit code {answer.exit_code} on {self.node}", tail)
        return answer.output

    def follow(self, argv: Sequence[str]) -> Iterator[bytes]:
        """Run ``argv`` and yield its output in pieces as it comes, whatever its exit code.

        Raises Unreachable if the connection breaks before the command ends, or the node answers nothing any more.
        """
        with channels.command(self._client, argv, SILENT_SECONDS) as (channel, _):
            while piece := self._next_piece(channel):
                yield piece
            channels.exit_code(channel)  # a broken connection ends the output, too

    def _next_piece(self, channel: "paramiko.Channel") -> bytes:
        """Wait for output and return it, b"" at its end; while there is none, check that the node still answers.

        Through a jump host, the system does not notice for many minutes that this machine slept or changed its network.
        """
        while True:
            try:
                return channel.recv(pack_tar.CHUNK)
            except TimeoutError:
                self.run(["true"], timeout=SILENT_SECONDS)

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
        with channels.command(self._client, argv, timeout) as (channel, errors):
            channel.shutdown_write()
            while piece := channel.recv(pack_tar.WINDOW):
                limit -= len(piece)
                if limit < 0:
                    raise ContractError(f"{self.node} sends more than was requested: {step}")
                yield piece
            channels.require_success(self.node, step, argv, channel, errors)

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
        with channels.command(self._client, argv, timeout) as (channel, errors):
            with contextlib.suppress(pack_tar.Refused):
                target = pack_tar.Input(channel)
                for piece in pieces:
                    target.write(piece)
            channel.shutdown_write()
            channels.require_success(self.node, step, argv, channel, errors)

    def converse(self, step: str, argv: Sequence[str], text: str) -> Generator[str]:
        """Run ``argv`` with ``text`` on its standard input, which stays open, and yield lines of output as they come.

        Its input is closed with the iterator, so that the command notices if this machine no longer waits for it.

        Args:
            step: Purpose of the command, for the error.
            argv: Command; it reads ``text`` without waiting for the end of its input.
            text: Its input.

        Yields:
            Lines of standard output.

        Raises:
            CommandFailed: The exit code is not 0.
            ContractError: A line is too long.
            Unreachable: The connection breaks or is silent for too long.
        """
        with (
            channels.command(self._client, argv, ANSWER_SECONDS) as (channel, errors),
            channel.makefile("rb") as output,
        ):
            with contextlib.suppress(pack_tar.Refused):  # its own error output says why
                pack_tar.Input(channel).write(text.encode())
            while line := output.readline(LINE_BYTES + 1):
                if len(line) > LINE_BYTES:
                    raise ContractError(f"{self.node} sends a line of more than {LINE_BYTES >> 20} MiB")
                yield line.decode(errors="replace")
            channels.require_success(self.node, step, argv, channel, errors)

    def send(self, files: Mapping[str, Path], directory: str, on_file: Callable[[int], None] | None = None) -> None:
        """Send local files into a directory on the node; links are followed.

        Args:
            files: Local path by name on the node.
            directory: Existing directory on the node.
            on_file: Called with the number of files sent so far.

        Raises:
            ConfigError: A local file cannot be read, or becomes shorter meanwhile.
            CommandFailed: The node cannot unpack the files.
            Unreachable: The connection breaks or is silent for too long.
        """
        argv = ["tar", "--extract", "--directory", directory]
        with channels.command(self._client, argv, ANSWER_SECONDS) as (channel, errors):
            with contextlib.suppress(pack_tar.Refused), pack_tar.archive(pack_tar.Input(channel)) as archive:
                for count, (name, path) in enumerate(files.items()):
                    pack_tar.add(archive, name, path)
                    if on_file:
                        on_file(count + 1)
            channel.shutdown_write()
            channels.require_success(self.node, "send files", argv, channel, errors)

    def fetch(self, directory: str, limits: Mapping[str, int], target: Path) -> list[str]:
        """Copy files in ``directory`` on the node into the empty local directory ``target``.

        Args:
            directory: Absolute path on the node.
            limits: Largest number of bytes by name in the directory; a name with a slash at the end is a directory with
                all files below it.
            target: Local directory; remove its content after an error, since the node may be compromised.

        Returns:
            Names that were left out, since they are no regular files or cannot be read.

        Raises:
            ContractError: The node sends something else.
            CommandFailed: The node cannot send the files.
            ConfigError: A local file cannot be written.
        """
        argv = ["tar", "--create", "--hard-dereference", "--ignore-failed-read", "--directory", directory, *limits]
        left_out, damage = list[str](), ""
        with (
            channels.command(self._client, argv, ANSWER_SECONDS) as (channel, errors),
            channel.makefile("rb", pack_tar.CHUNK) as pipe,
        ):
            try:
                left_out = unpack_tar.unpack(pipe, limits, target)
            except unpack_tar.Refused as error:
                raise ContractError(
                    f"{self.node} sends {error}", "its answer was discarded: check who controls the node"
                ) from None
            except tarfile.ReadError as error:
                damage = str(error)
            # If the archive is cut, tar says why.
            lines = channels.require_success(self.node, "fetch files", argv, channel, errors, FILE_CHANGED)
        if damage:
            raise ContractError(f"{self.node} sends a damaged archive: {damage}")
        return left_out + [found[1] for line in lines if (found := UNREADABLE.fullmatch(line))]
