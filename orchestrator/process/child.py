"""Start a program as a child of this process with files for its output, and end it with all that it started."""

import contextlib
import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from orchestrator import progress
from orchestrator.errors import CommandFailed
from orchestrator.process import interrupts

CHUNK = 1 << 16


@contextlib.contextmanager
def files(step: str, argv: Sequence[str], log: Path | None) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Open the files for a program's output and errors.

    Files, not pipes to this process: the program must be able to continue, and to record what it made, after this
    process was killed.

    Args:
        step: Name of the step, for errors.
        argv: Program and arguments.
        log: File for both, to which the command is appended first; None for temporary files.

    Yields:
        The files for standard output and standard error.

    Raises:
        CommandFailed: The log cannot be written.
    """
    if log is None:
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            yield output, errors
        return
    try:
        file = log.open("ab+", buffering=0)
        file.write(f"$ {shlex.join(argv)}\n".encode())
    except OSError as error:
        raise CommandFailed(step, argv, f"{log}: {error.strerror}", []) from error
    with file:
        yield file, file


@contextlib.contextmanager
def started(
    step: str, argv: Sequence[str], log: Path | None, options: Mapping[str, Any]
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run ``argv`` in a session of its own while the context lasts, and end it after that.

    Args:
        step: Name of the step, for errors.
        argv: Program and arguments.
        log: File with its output, for errors.
        options: Options of Popen; standard input is empty unless they have another.

    Yields:
        The program.

    Raises:
        CommandFailed: It cannot be started.
    """
    with contextlib.ExitStack() as ended:
        with interrupts.held():
            try:
                program = subprocess.Popen(argv, start_new_session=True, **{"stdin": subprocess.DEVNULL, **options})
            except OSError as error:
                raise CommandFailed(step, argv, error.strerror or str(error), [], log) from error
            ended.callback(_end, program)
        yield program


def read_lines(file: IO[bytes]) -> list[str]:
    """Return all lines of ``file``."""
    file.seek(0)
    return file.read().decode(errors="replace").splitlines()


def _end(program: "subprocess.Popen[bytes]") -> None:
    """End the program and all that it started. Another Ctrl-C escalates to the next signal."""
    if program.poll() is not None:
        return
    progress.note("ending programs in progress: this can take a minute")
    for number, seconds in interrupts.signal_sequence():
        with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            if program.poll() is None:
                program.send_signal(number)
                program.wait(seconds)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGKILL)
