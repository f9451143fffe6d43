"""Signals as readable events, so that none interrupts at a wrong moment and none is lost."""

import os
import select
import signal

ENDING = {signal.SIGTERM, signal.SIGHUP, signal.SIGINT}


class Signals:
    """Receiver of signals; from construction on, ``numbers`` and SIGCHLD only make ``descriptor`` readable."""

    def __init__(self, *numbers: int) -> None:
        self.descriptor, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in (*numbers, signal.SIGCHLD):
            signal.signal(number, _nothing)

    def wait(self, seconds: "float | None", *others: int) -> list[int]:
        """Wait for a signal, or input on ``others``, at most ``seconds``; return the descriptors that are readable."""
        return select.select([self.descriptor, *others], [], [], seconds)[0]

    def received(self) -> set[int]:
        """Return the signals that arrived since the last call."""
        try:
            return set(os.read(self.descriptor, select.PIPE_BUF))
        except BlockingIOError:
            return set()


def _nothing(number: int, frame: object) -> None:
    """Replace the default action, which would end the program; not SIG_IGN, which children would inherit."""
