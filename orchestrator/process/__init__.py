"""Run external programs: this package is the only part that starts them, waits for them, and ends them."""

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, NoReturn

from orchestrator.errors import LAST_LINES, CommandFailed, OrchestratorError, PreflightError
from orchestrator.process import child

LOOK_SECONDS = 0.05  # between two looks at what a program has written

Line = Callable[[str], None]


def run(
    step: str,
    argv: Sequence[str],
    log: Path | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str | None] | None = None,
    on_line: Line | None = None,
    seconds: float = 3600.0,
) -> str:
    """Run ``argv`` until it ends.

    The program gets its own session, so that Ctrl-C reaches it only once, through this process.

    Args:
        step: Name of the step, for errors.
        argv: Program and arguments.
        log: File to which standard output and standard error are appended; None to return the output instead.
        cwd: Working directory.
        env: Changes to this process's environment; None removes a variable.
        on_line: Called with every line of output as it comes.
        seconds: Time limit.

    Returns:
        Standard output; "" with a ``log``.

    Raises:
        CommandFailed: The exit code is not 0, or the program did not end within ``seconds``.
    """
    deadline = time.monotonic() + seconds
    with child.files(step, argv, log) as (output, errors):
        begin = output.tell()
        options = {"cwd": cwd, "env": _environment(env or {}), "stdout": output, "stderr": errors}
        with child.started(step, argv, log, options) as program:
            lines = _follow(program, output, begin, on_line, deadline)
            if program.returncode is None:
                raise CommandFailed(step, argv, f"no end within {seconds:.0f} s", lines[-LAST_LINES:], log)
        if program.returncode:
            written = [*lines, *(child.read_lines(errors) if log is None else [])]
            last = [line.rstrip() for line in written if line.strip()][-LAST_LINES:]
            raise CommandFailed(step, argv, f"exit code {program.returncode}", last, log)
    return "" if log else "\n".join(lines)


def require(program: str, remedy: str) -> None:
    """Check that ``program`` is on the PATH.

    Raises:
        PreflightError: It is not; ``remedy`` is the hint.
    """
    if not shutil.which(program):
        raise PreflightError(f"{program} is not on the PATH", remedy)


def replace(argv: Sequence[str]) -> NoReturn:
    """Replace this process by ``argv``, an interactive program that takes over the terminal.

    Raises:
        OrchestratorError: It cannot be started, for example because its arguments are too long.
    """
    try:
        os.execvp(argv[0], list(argv))
    except OSError as error:
        remedy = "write a long command into a file, and copy it by `orchestrator cp`"
        raise OrchestratorError(f"{argv[0]} cannot be started: {error.strerror}", remedy) from error


def _environment(changes: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in {**os.environ, **changes}.items() if value is not None}


def _follow(
    program: "subprocess.Popen[bytes]", file: IO[bytes], position: int, on_line: Line | None, deadline: float
) -> list[str]:
    """Return the lines in ``file`` from ``position`` until ``program`` ends, then the rest after the last newline."""
    rest, written, ended = list[bytes](), list[str](), False  # rest: pieces, joined once, since lines may be long
    while not ended and time.monotonic() < deadline:
        with contextlib.suppress(subprocess.TimeoutExpired):
            program.wait(LOOK_SECONDS)
        ended = program.returncode is not None  # before reading, so that its last output is read too
        while piece := os.pread(file.fileno(), child.CHUNK, position):  # does not move the program's own position
            position += len(piece)
            rest.append(piece)
            if b"\n" not in piece:
                continue
            *lines, last = b"".join(rest).split(b"\n")
            rest = [last]
            for line in lines:
                written.append(line.decode(errors="replace"))
                if on_line:
                    on_line(written[-1])
    return [*written, b"".join(rest).decode(errors="replace")]
