"""Signals that wait to be read, so that none comes at a wrong moment and none is lost."""

import os
import select
import signal


class Signals:
    """From when this is made, ``numbers`` (and a child's end) interrupt nothing: they make ``descriptor`` readable."""

    def __init__(self, *numbers: int) -> None:
        self.descriptor, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in (*numbers, signal.SIGCHLD):
            signal.signal(number, _nothing)

    def wait(self, seconds: float) -> None:
        """Until a signal has come, or so many seconds have passed."""
        select.select([self.descriptor], [], [], seconds)

    def received(self) -> set[int]:
        """What has come since this was called last."""
        try:
            return set(os.read(self.descriptor, select.PIPE_BUF))
        except BlockingIOError:
            return set()


def _nothing(number: int, frame: object) -> None:
    """In the place of the default, which would end the program; not SIG_IGN, which children would inherit."""
