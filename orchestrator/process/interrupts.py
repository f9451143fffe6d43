"""End programs: the order of signals, and the search for programs that a killed command left behind."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from orchestrator.lazy_imports import LazyModule

if TYPE_CHECKING:
    import psutil
else:
    psutil = LazyModule("psutil")

INTERRUPT_SECONDS, TERMINATE_SECONDS = 60.0, 5.0
OWNER = "ORCHESTRATOR_STATE"


def signal_sequence() -> list[tuple[signal.Signals, float]]:
    """Return the signals in order of severity, each with the seconds that a program has to end."""
    return [
        (signal.SIGINT, INTERRUPT_SECONDS),
        (signal.SIGTERM, TERMINATE_SECONDS),
        (signal.SIGKILL, TERMINATE_SECONDS),
    ]


def keep_programs_interruptible() -> None:
    """Let started programs receive interrupts even if this process ignores them.

    In the background of a script this process ignores interrupts, and the programs it starts would inherit that.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda number, frame: None)


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Hold SIGINT and SIGTERM back while a program is started: the caller could not end it before it knows it.

    Handlers run at the end of the context. Threads need nothing: signals interrupt the main thread only.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []

    def hold(number: int, frame: "FrameType | None") -> None:
        received.append(number)

    own = {int(number): signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    handlers = {number: handler for number, handler in own.items() if callable(handler)}
    try:
        with contextlib.ExitStack() as restored:
            for number, handler in handlers.items():
                restored.callback(signal.signal, number, handler)
                signal.signal(number, hold)
            yield
    finally:
        for number in received:
            handlers[number](number, None)


@contextlib.contextmanager
def marking_programs(directory: Path) -> Iterator[None]:
    """Mark every program that this process starts in the context as working for ``directory``."""
    before = os.environ.get(OWNER)
    os.environ[OWNER] = str(directory)
    try:
        yield
    finally:
        os.environ.pop(OWNER, None)
        if before is not None:
            os.environ[OWNER] = before


def orphans(directory: Path) -> "list[psutil.Process]":
    """Find the programs that a killed command left working for ``directory``."""
    return [process for process in psutil.process_iter() if _works_for(process, directory)]


@contextlib.contextmanager
def ending_children() -> Iterator[None]:
    """End all children if the context ends early: for a library that starts programs."""
    try:
        yield
    except BaseException:
        end_all(psutil.Process().children(recursive=True))
        raise


def end_all(processes: "list[psutil.Process]") -> None:
    """End the processes; they are interrupted first, so that Terraform records what it made."""
    for number, seconds in signal_sequence():
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)
        with contextlib.suppress(KeyboardInterrupt):
            _, processes = psutil.wait_procs(processes, timeout=seconds)


def _works_for(process: "psutil.Process", directory: Path) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.pid != os.getpid() and process.environ().get(OWNER) == str(directory)
    return False
