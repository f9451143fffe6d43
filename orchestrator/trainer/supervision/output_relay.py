"""Relay of a rank's output to its launcher through separate pipes.

A process that escaped from the rank may keep the rank's output open for ever. It then holds the relay's pipe and not
the launcher's, which closes when the wrapper ends. If the launcher does not tag the lines of its ranks, the relay does.
"""

import contextlib
import os
import re
import select
import sys
import threading
import time

DRAIN_SECONDS = 5.0
PAUSE_SECONDS = 0.1  # an incomplete line is passed on after that
PIECE = 1 << 16  # bytes: capacity of a pipe
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
        """Wait until everything is copied, at most DRAIN_SECONDS, since a process may hold a pipe or not read."""
        deadline = time.monotonic() + DRAIN_SECONDS
        for thread in self.threads:
            thread.join(max(0.0, deadline - time.monotonic()))


def _copy(source: int, target: int, tag: bytes) -> None:
    """Copy whole lines until the pipe's end; if ``target`` is closed, the writer fails as it would without a relay.

    Python prints a line and its end separately: passed on like that, lines of several ranks would run into each other.
    """
    rest, write = b"", _Writer(target, tag).write
    with contextlib.suppress(BrokenPipeError), os.fdopen(source, "rb", buffering=0):
        while True:
            if rest and not select.select([source], [], [], PAUSE_SECONDS)[0]:
                write(rest)
                rest = b""
            piece = os.read(source, PIECE)
            end = max(piece.rfind(b"\n"), piece.rfind(b"\r")) + 1 or (len(piece) if len(rest) > PIECE else 0)
            write(rest + piece[:end] if end or not piece else b"")
            rest = piece[end:] if end else rest + piece
            if not piece:
                return


class _Writer:
    """Writer to ``target`` that puts ``tag`` before every line."""

    def __init__(self, target: int, tag: bytes) -> None:
        self.target, self.tag, self.within_line = target, tag, False

    def write(self, piece: bytes) -> None:
        """Write ``piece``, which may end within a line."""
        for part in LINE.findall(piece) if self.tag else [piece]:
            tag = b"" if self.within_line else self.tag
            _write_all(self.target, tag + part)
            self.within_line = not part.endswith((b"\n", b"\r"))


def _write_all(target: int, piece: bytes) -> None:
    while piece:
        piece = piece[os.write(target, piece) :]
