"""A run's log as a person wants to see it. Pure: pieces of bytes in, lines out."""

import codecs
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

TAG = re.compile(r"^\[(?:\d+,)?(\d+)\]<(?:stdout|stderr)>:")
MPI_TAG = re.compile(r"\[1,\d+\]<(?:stdout|stderr)>:")  # mpirun sets one before every piece that it was given
LONGEST = 1 << 16  # characters of a line: more of it are the next line
LINE_END = re.compile(r"[\r\n]")
# What TensorFlow 2.21 writes at every start, whatever its log level. The log itself keeps it.
CHATTER = re.compile(
    r"before absl::InitializeLog|port\.cc:\d+\] oneDNN|cpu_feature_guard\.cc|^To enable the following instructions"
)
# After a rank failed, horovodrun adds a traceback of its own, which says nothing that the rank's does not.
LAUNCHER_TRACEBACK = "Traceback (most recent call last):"


@dataclass(frozen=True)
class Line:
    """``lasting`` is false for a line of progress, which holds until the next one."""

    text: str
    lasting: bool


def lines(pieces: Iterable[bytes]) -> Iterator[Line]:
    """The lines of a log that comes in ``pieces``: rank 0 speaks plainly, the others behind their number."""
    in_traceback = False
    for text, lasting in _split(pieces):
        tag = TAG.match(text)
        words = MPI_TAG.sub("", text[tag.end() :]) if tag else text
        in_traceback = not tag and (in_traceback or words == LAUNCHER_TRACEBACK)
        if words.strip() and not in_traceback and not CHATTER.search(words):
            yield Line(f"[rank {tag[1]}] {words}" if tag and tag[1] != "0" else words, lasting)


def _split(pieces: Iterable[bytes]) -> Iterator[tuple[str, bool]]:
    decoder, rest = codecs.getincrementaldecoder("utf-8")(errors="replace"), ""
    for piece in pieces:
        rest, end = rest + decoder.decode(piece), 0
        for match in LINE_END.finditer(rest):
            yield rest[end : match.start()], match[0] == "\n"
            end = match.end()
        rest = rest[end:]
        if len(rest) > LONGEST:
            yield rest, True
            rest = ""
    if rest:
        yield rest, True


def without_chatter(words: Iterable[str]) -> list[str]:
    return [line for line in words if not CHATTER.search(line)]
