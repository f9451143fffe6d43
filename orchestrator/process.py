"""The one place that starts foreign programs, waits for them, and ends them."""

import contextlib
import os
import queue
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, NoReturn, TypeVar

import psutil

from orchestrator.errors import CommandFailed

LAST_LINES = 20
INTERRUPT_SECONDS, TERMINATE_SECONDS = 60.0, 5.0
OWNER = "ORCHESTRATOR_STATE"

Line = Callable[[str], None]
Item = TypeVar("Item")


def run(
    step: str,
    argv: Sequence[str],
    log: Path | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    on_line: Line | None = None,
) -> str:
    """Run ``argv`` to its end, everything it says appended to ``log`` if given; returns its standard output.

    The program gets a session of its own, so that a Ctrl-C meant for us reaches it once and from us.
    ``env`` is added to our own environment; ``on_line`` sees every line of standard output as it comes.
    Raises CommandFailed on any exit code but 0.
    """
    try:
        child = subprocess.Popen(
            argv,
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise CommandFailed(step, argv, error.strerror or str(error), [], log) from error
    with (log or Path(os.devnull)).open("a") as file, _ending(child):
        file.write(f"$ {' '.join(argv)}\n")
        output, tail = _read(child, file, on_line)
        code = child.wait()
    if code:
        raise CommandFailed(step, argv, f"exit code {code}", tail, log)
    return output


def _read(child: "subprocess.Popen[str]", log: IO[str], on_line: Line | None) -> tuple[str, deque[str]]:
    tail: deque[str] = deque(maxlen=LAST_LINES)
    output: list[str] = []

    def keep(line: str) -> None:
        log.write(line)
        log.flush()
        if line.strip():
            tail.append(line.rstrip())

    def keep_all(pipe: Iterable[str]) -> None:
        for line in pipe:
            keep(line)

    errors = threading.Thread(target=keep_all, args=(child.stderr or (),))
    errors.start()
    for line in child.stdout or ():
        keep(line)
        output.append(line)
        if on_line:
            on_line(line.rstrip("\n"))
    errors.join()
    return "".join(output), tail


@contextlib.contextmanager
def _ending(child: "subprocess.Popen[str]") -> Iterator[None]:
    """Leave no child behind: on the way out interrupt it, then terminate, then kill, each with its wait."""
    try:
        yield
    finally:
        for number, seconds in (
            (signal.SIGINT, INTERRUPT_SECONDS),
            (signal.SIGTERM, TERMINATE_SECONDS),
            (signal.SIGKILL, TERMINATE_SECONDS),
        ):
            if child.poll() is not None:
                break
            child.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(seconds)


def watched(items: Iterable[Item], seconds: float, on_silence: Callable[[float], None]) -> Iterator[Item]:
    """``items`` as they come; whenever none came for ``seconds``, ``on_silence`` is told for how long and may raise."""
    arrived: queue.SimpleQueue[tuple[Item] | BaseException | None] = queue.SimpleQueue()

    def drain() -> None:
        try:
            for item in items:
                arrived.put((item,))
            arrived.put(None)
        except BaseException as error:  # whatever it is, it is raised where the items are used
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


def replace(argv: Sequence[str]) -> NoReturn:
    """Become ``argv``: for an interactive program that takes the terminal over."""
    os.execvp(argv[0], list(argv))


def own(directory: Path) -> None:
    """Mark every program that this process starts from now on as working for ``directory``."""
    os.environ[OWNER] = str(directory)


def end_orphans(directory: Path) -> list[str]:
    """End programs that a killed command left working for ``directory``; returns their names.

    They are interrupted first, so that Terraform writes down what it made.
    """
    found = [process for process in psutil.process_iter() if _works_for(process, directory)]
    names = [process.name() for process in found]
    for end, seconds in (
        (lambda process: process.send_signal(signal.SIGINT), INTERRUPT_SECONDS),
        (psutil.Process.terminate, TERMINATE_SECONDS),
        (psutil.Process.kill, TERMINATE_SECONDS),
    ):
        for process in found:
            with contextlib.suppress(psutil.NoSuchProcess):
                end(process)
        _, found = psutil.wait_procs(found, timeout=seconds)
    return names


def _works_for(process: psutil.Process, directory: Path) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.pid != os.getpid() and process.environ().get(OWNER) == str(directory)
    return False
