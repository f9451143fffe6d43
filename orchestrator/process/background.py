"""Run programs in the background of this process: while a context lasts, or behind a socket."""

import contextlib
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence

from orchestrator.errors import LAST_LINES, CommandFailed
from orchestrator.process import child, interrupts

Background = Callable[[float | None], list[str]]


@contextlib.contextmanager
def run(step: str, argv: Sequence[str]) -> Iterator[Background]:
    """Run ``argv`` in the background while the context lasts.

    Its standard input stays open until this process ends, in whatever way: `cat` would then end, too. Yields a function
    that waits for some seconds (None: without limit) and returns the lines of standard error so far; it raises
    CommandFailed if the program has ended.
    """
    with child.files(step, argv, None) as (output, errors):
        options = {"stdin": subprocess.PIPE, "stdout": output, "stderr": errors}
        with child.started(step, argv, None, options) as program:

            def wait(seconds: float | None) -> list[str]:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    program.wait(seconds)
                    last = child.read_lines(errors)[-LAST_LINES:]
                    raise CommandFailed(step, argv, f"exit code {program.returncode}", last)
                return os.pread(errors.fileno(), child.CHUNK, 0).decode(errors="replace").splitlines()

            try:
                yield wait
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
