"""Copies what a rank writes to whoever launched it, through pipes of our own.

A process that escaped from the rank may hold the rank's output for ever. It then holds our pipe and not the
launcher's, whose end comes with ours.
"""

import contextlib
import os
import select
import sys
import threading
import time

DRAIN_SECONDS = 5.0
PAUSE_SECONDS = 0.1  # a line that has not ended by then is passed on as it is
PIECE = 1 << 16  # bytes: what a pipe holds


class Relay:
    """Two pipes, for standard output and standard error, each with a thread that copies what comes."""

    def __init__(self) -> None:
        self.ends = [os.pipe(), os.pipe()]
        self.threads: list[threading.Thread] = []

    @property
    def inputs(self) -> tuple[int, int]:
        """What the rank is to have as standard output and standard error."""
        return self.ends[0][1], self.ends[1][1]

    def start(self) -> None:
        """Copy, once the rank has been started and holds its ends of the pipes."""
        for (source, sink), target in zip(self.ends, (sys.stdout.fileno(), sys.stderr.fileno()), strict=True):
            os.close(sink)
            self.threads.append(threading.Thread(target=_copy, args=(source, target), daemon=True))
            self.threads[-1].start()

    def drain(self) -> None:
        """Wait until everything is copied, or until time is up because somebody holds a pipe or reads nothing."""
        deadline = time.monotonic() + DRAIN_SECONDS
        for thread in self.threads:
            thread.join(max(0.0, deadline - time.monotonic()))


def _copy(source: int, target: int) -> None:
    """Whole lines, until the pipe's end; where nobody reads ``target`` any more, the writer learns it as without us.

    Python prints a line and its end apart: passed on like that, lines of several ranks would run into each other.
    """
    rest = b""
    with contextlib.suppress(BrokenPipeError), os.fdopen(source, "rb", buffering=0):
        while True:
            if rest and not select.select([source], [], [], PAUSE_SECONDS)[0]:
                _write(target, rest)
                rest = b""
            piece = os.read(source, PIECE)
            end = max(piece.rfind(b"\n"), piece.rfind(b"\r")) + 1 or (len(piece) if len(rest) > PIECE else 0)
            _write(target, rest + piece[:end] if end or not piece else b"")
            rest = piece[end:] if end else rest + piece
            if not piece:
                return


def _write(target: int, piece: bytes) -> None:
    while piece:
        piece = piece[os.write(target, piece) :]
