"""Run programs in the background of this process: while a context lasts, or behind a socket."""

import contextlib
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import IO

from orchestrator.errors import LAST_LINES, CommandFailed
from orchestrator.process import child, interrupts

Output = tuple[IO[bytes], IO[bytes]]


class Background:
    """A program in the background of this process, with files for its standard output and its standard error."""

    def __init__(self, step: str, argv: Sequence[str], program: "subprocess.Popen[bytes]", output: Output) -> None:
        self._step, self._argv, self._program, (self._output, self._errors) = step, argv, program, output

    def wait(self, seconds: float | None) -> list[str]:
        """Wait for some seconds (None: without limit) and return the lines of standard error so far.

        Raises CommandFailed if the program has ended.
        """
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._program.wait(seconds)
            last = child.read_lines(self._errors)[-LAST_LINES:]
            raise CommandFailed(self._step, self._argv, f"exit code {self._program.returncode}", last)
        return _lines(self._errors)

    def send(self, line: str) -> None:
        """Write a line to standard input. A program that has ended does not get it."""
        if self._program.stdin:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._program.stdin.fileno(), f"{line}\n".encode())

    def written(self) -> list[str]:
        """Return the lines of standard output so far."""
        return _lines(self._output)


def _lines(file: IO[bytes]) -> list[str]:
    return os.pread(file.fileno(), child.CHUNK, 0).decode(errors="replace").splitlines()


@contextlib.contextmanager
def run(step: str, argv: Sequence[str]) -> Iterator[Background]:
    """Run ``argv`` in the background while the context lasts.

    Its standard input stays open until this process ends, in whatever way: `cat` would then end, too.
    """
    with child.files(step, argv, None) as (output, errors):
        options = {"stdin": subprocess.PIPE, "stdout": output, "stderr": errors}
        with child.started(step, argv, None, options) as program:
            try:
                yield Background(step, argv, program, (output, errors))
            finally:
                program.terminate()  # it has nothing to save: no interrupt needed first
                if program.stdin:
                    program.stdin.close()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    program.wait(interrupts.TERMINATE_SECONDS)


def open_socket(argv: Sequence[str]) -> tuple[socket.socket, Callable[[], str]]:
    """Open a socket that is both standard input and output of ``argv``.

    Returns:
        The socket, and a function that returns the program's standard error after it has ended.

    Raises:
        OSError: The program cannot be started.
    """
    parent_end, child_end = socket.socketpair()
    with child_end:
        ends = child_end.fileno()
        try:
            program = subprocess.Popen(argv, stdin=ends, stdout=ends, stderr=subprocess.PIPE, start_new_session=True)
        except OSError:
            parent_end.close()
            raise
    errors: list[bytes] = []
    reader = threading.Thread(target=lambda: errors.append(program.communicate()[1]), daemon=True)
    reader.start()

    def words() -> str:
        reader.join(1.0)
        return " ".join(b"".join(errors).decode(errors="replace").split())

    return parent_end, words
