"""Relay of a rank's output to its launcher through separate pipes.

A process that escaped from the rank may keep the rank's output open for ever. It then holds the relay's pipe and not
the launcher's, which closes when the wrapper ends. If the launcher does not tag the lines of its ranks, the relay does.

It ends a line whose end does not come soon: the next text in the run's log may be another rank's.
"""

import contextlib
import os
import re
import select
import sys
import threading
import time
from collections import defaultdict

from orchestrator import grace_periods

PAUSE_SECONDS = 1.0  # an incomplete line is ended and passed on after that
NEWLINE_SECONDS = 0.05  # for the newline after a carriage return: they end one line; progress bars write none
PIECE = 1 << 16  # bytes: capacity of a pipe
LOCKS: "defaultdict[int, threading.Lock]" = defaultdict(threading.Lock)  # of targets, which relays may share
LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


class Relay:
    """Two pipes, for standard output and standard error, each with a thread that copies its content.

    Args:
        tag: Rank in the tags that lines get, as horovodrun writes them; None for lines as they are.
    """

    def __init__(self, tag: "int | None" = None) -> None:
        self.ends = [os.pipe(), os.pipe()]
        names = ("stdout", "stderr")
        self.tags = [b"" if tag is None else f"[{tag}]<{name}>:".encode() for name in names]
        self.threads: list[threading.Thread] = []

    @property
    def inputs(self) -> tuple[int, int]:
        """Descriptors for the rank's standard output and standard error."""
        return self.ends[0][1], self.ends[1][1]

    def start(self) -> None:
        """Start to copy, once the rank has been started and holds its ends of the pipes."""
        targets = (sys.stdout.fileno(), sys.stderr.fileno())
        for (source, sink), target, tag in zip(self.ends, targets, self.tags, strict=True):
            os.close(sink)
            self.threads.append(threading.Thread(target=_copy, args=(source, target, tag), daemon=True))
            self.threads[-1].start()

    def drain(self) -> None:
        """Wait until everything is copied, at most ``grace_periods.DRAIN``."""
        deadline = time.monotonic() + grace_periods.DRAIN
        for thread in self.threads:
            thread.join(max(0.0, deadline - time.monotonic()))


def _copy(source: int, target: int, tag: bytes) -> None:
    """Copy whole lines until the pipe's end; if ``target`` is closed, the writer fails as it would without a relay.

    Python prints a line and its end separately: passed on like that, lines of several ranks would run into each other.
    """
    writer = _Writer(target, tag)
    with contextlib.suppress(BrokenPipeError), os.fdopen(source, "rb", buffering=0):
        while True:
            if writer.is_within_line() and not select.select([source], [], [], PAUSE_SECONDS)[0]:
                writer.end_line(writer.last_end)
            piece = os.read(source, PIECE)
            if piece.endswith(b"\r") and select.select([source], [], [], NEWLINE_SECONDS)[0]:
                piece += os.read(source, 1)
            if not piece:
                return writer.end_line(b"\n")
            writer.add(piece)


class _Writer:
    """Writer of whole lines to ``target``, with ``tag`` before each.

    Attributes:
        last_end: End of the last line: a line without an end gets the same, as progress bars need it.
    """

    def __init__(self, target: int, tag: bytes) -> None:
        self.target, self.tag, self.last_end = target, tag, b"\n"
        self.rest, self.partly_written = b"", False

    def is_within_line(self) -> bool:
        """Tell whether the end of a line is still to come."""
        return bool(self.rest) or self.partly_written

    def add(self, piece: bytes) -> None:
        """Write the lines that ``piece`` completes, and the begin of one that is longer than PIECE."""
        text = self.rest + piece
        end = max(text.rfind(b"\r"), text.rfind(b"\n")) + 1
        if end:
            self.last_end = text[end - 1 : end]
        elif len(text) > PIECE:
            end = len(text)
        self.rest = text[end:]
        for part in LINE.findall(text[:end]):
            line = part if self.partly_written else self.tag + part
            with LOCKS[self.target]:
                while line:
                    line = line[os.write(self.target, line) :]
            self.partly_written = not part.endswith((b"\n", b"\r"))

    def end_line(self, end: bytes) -> None:
        """Write what is left of a line, with ``end``."""
        if self.is_within_line():
            self.add(end)
