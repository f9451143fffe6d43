"""How programs are ended: in which order they are asked, and which of them a killed command of ours left behind."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil

INTERRUPT_SECONDS, TERMINATE_SECONDS = 60.0, 5.0
OWNER = "ORCHESTRATOR_STATE"


def ways() -> list[tuple[signal.Signals, float]]:
    """Signals in the order of their severity, each with how long it may take."""
    return [
        (signal.SIGINT, INTERRUPT_SECONDS),
        (signal.SIGTERM, TERMINATE_SECONDS),
        (signal.SIGKILL, TERMINATE_SECONDS),
    ]


def keep_programs_interruptible() -> None:
    """In the background of a script we ignore interrupts, and what we start would too: let that be ours alone."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda number, frame: None)


def own(directory: Path) -> None:
    """Mark every program that this process starts from now on as working for ``directory``."""
    os.environ[OWNER] = str(directory)


def orphans(directory: Path) -> list[psutil.Process]:
    """Programs that a killed command left working for ``directory``."""
    return [process for process in psutil.process_iter() if _works_for(process, directory)]


@contextlib.contextmanager
def ending_children() -> Iterator[None]:
    """Around a library that starts programs by itself: whatever ends it early, the programs end with it."""
    try:
        yield
    except BaseException:
        end_all(psutil.Process().children(recursive=True))
        raise


def end_all(found: list[psutil.Process]) -> None:
    """End them; they are interrupted first, so that Terraform writes down what it made."""
    for number, seconds in ways():
        for process in found:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)
        with contextlib.suppress(KeyboardInterrupt):
            _, found = psutil.wait_procs(found, timeout=seconds)


def _works_for(process: psutil.Process, directory: Path) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.pid != os.getpid() and process.environ().get(OWNER) == str(directory)
    return False
