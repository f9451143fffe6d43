"""Start foreign programs, wait for them, and end them: the only module that does."""

import contextlib
import os
import queue
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn, TypeVar

from orchestrator import progress, termination
from orchestrator.errors import CommandFailed, PreflightError

LAST_LINES = 20
LOOK_SECONDS = 0.05  # between two looks at what a program has written
CHUNK = 1 << 16

Line = Callable[[str], None]
Background = Callable[[float | None], list[str]]
Item = TypeVar("Item")


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
    with _files(step, argv, log) as (output, errors):
        begin = output.tell()
        options = {"cwd": cwd, "env": _environment(env or {}), "stdout": output, "stderr": errors}
        with _started(step, argv, log, options) as child:
            lines = _follow(child, output, begin, on_line, deadline)
            if child.returncode is None:
                raise CommandFailed(step, argv, f"no end within {seconds:.0f} s", lines[-LAST_LINES:], log)
        if child.returncode:
            last = [line.rstrip() for line in [*lines, *(_error_lines(errors) if log is None else [])] if line.strip()]
            raise CommandFailed(step, argv, f"exit code {child.returncode}", last[-LAST_LINES:], log)
    return "" if log else "\n".join(lines)


def require(program: str, remedy: str) -> None:
    """Check that ``program`` is on the PATH.

    Raises:
        PreflightError: It is not; ``remedy`` is the hint.
    """
    if not shutil.which(program):
        raise PreflightError(f"{program} is not on the PATH", remedy)


def _environment(changes: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in {**os.environ, **changes}.items() if value is not None}


@contextlib.contextmanager
def _files(step: str, argv: Sequence[str], log: Path | None) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Open the files for a program's output and errors.

    Files, not pipes to this process: the program must be able to continue, and to record what it made, after this
    process was killed.
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
def _started(
    step: str, argv: Sequence[str], log: Path | None, options: Mapping[str, Any]
) -> Iterator["subprocess.Popen[bytes]"]:
    try:
        child = subprocess.Popen(argv, start_new_session=True, **{"stdin": subprocess.DEVNULL, **options})
    except OSError as error:
        raise CommandFailed(step, argv, error.strerror or str(error), [], log) from error
    try:
        yield child
    finally:
        _end(child)


def _follow(
    child: "subprocess.Popen[bytes]", file: IO[bytes], position: int, on_line: Line | None, deadline: float
) -> list[str]:
    """Return the lines in ``file`` from ``position`` until ``child`` ends, then the rest after the last newline."""
    rest, written, ended = b"", list[str](), False
    while not ended and time.monotonic() < deadline:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(LOOK_SECONDS)
        ended = child.returncode is not None  # before reading, so that its last output is read too
        while piece := os.pread(file.fileno(), CHUNK, position):  # does not move the child's position in the file
            position += len(piece)
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                written.append(line.decode(errors="replace"))
                if on_line:
                    on_line(written[-1])
    return [*written, rest.decode(errors="replace")]


def _error_lines(errors: IO[bytes]) -> list[str]:
    errors.seek(0)
    return errors.read().decode(errors="replace").splitlines()


def _end(child: "subprocess.Popen[bytes]") -> None:
    """End the child and all that it started. Another Ctrl-C escalates to the next signal."""
    if child.poll() is not None:
        return
    progress.note("ending programs in progress: this can take a minute")
    for number, seconds in termination.signal_sequence():
        with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            if child.poll() is None:
                child.send_signal(number)
                child.wait(seconds)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


def with_silence_timeout(items: Iterable[Item], seconds: float, on_silence: Callable[[float], None]) -> Iterator[Item]:
    """Yield ``items`` as they come, and report silence.

    Args:
        items: Read by a thread.
        seconds: Duration of a silence to report.
        on_silence: Called after each ``seconds`` without an item with the seconds of silence so far; it may raise.

    Returns:
        The items; errors of the source are raised here.
    """
    arrived: queue.SimpleQueue[tuple[Item] | BaseException | None] = queue.SimpleQueue()

    def drain() -> None:
        try:
            for item in items:
                arrived.put((item,))
            arrived.put(None)
        except BaseException as error:  # raised where the items are used
            arrived.put(error)

    threading.Thread(target=drain, daemon=True).start()
    silent_since = time.monotonic()
    while True:
        try:
            item = arrived.get(timeout=seconds)
        except queue.Empty:
            on_silence(time.monotonic() - silent_since)
            continue
        silent_since = time.monotonic()
        if item is None:
            return
        if isinstance(item, BaseException):
            raise item
        yield item[0]


def open_socket(argv: Sequence[str]) -> tuple[socket.socket, Callable[[], str]]:
    """Open a socket that is both standard input and output of ``argv``.

    Returns:
        The socket, and a function that returns the program's standard error after it has ended.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        ends = theirs.fileno()
        child = subprocess.Popen(argv, stdin=ends, stdout=ends, stderr=subprocess.PIPE, start_new_session=True)
    errors: list[bytes] = []
    reader = threading.Thread(target=lambda: errors.append(child.communicate()[1]), daemon=True)
    reader.start()

    def words() -> str:
        reader.join(1.0)
        return " ".join(b"".join(errors).decode(errors="replace").split())

    return ours, words


@contextlib.contextmanager
def background(step: str, argv: Sequence[str]) -> Iterator[Background]:
    """Run ``argv`` in the background while the context lasts.

    Its standard input stays open until this process ends, in whatever way: `cat` would then end, too. Yields a function
    that waits for some seconds (None: without limit) and returns the lines of standard error so far; it raises
    CommandFailed if the program has ended.
    """
    with _files(step, argv, None) as (output, errors):
        options = {"stdin": subprocess.PIPE, "stdout": output, "stderr": errors}
        with _started(step, argv, None, options) as child:

            def wait(seconds: float | None) -> list[str]:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(seconds)
                    raise CommandFailed(step, argv, f"exit code {child.returncode}", _error_lines(errors)[-LAST_LINES:])
                return os.pread(errors.fileno(), CHUNK, 0).decode(errors="replace").splitlines()

            try:
                yield wait
            finally:
                child.terminate()  # it has nothing to save: no interrupt needed first
                if child.stdin:
                    child.stdin.close()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(termination.TERMINATE_SECONDS)


def replace(argv: Sequence[str]) -> NoReturn:
    """Replace this process by ``argv``, an interactive program that takes over the terminal."""
    os.execvp(argv[0], list(argv))
