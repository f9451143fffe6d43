"""Filter a run's log for display. Pure: pieces of bytes in, lines out."""

import codecs
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from orchestrator.schema import LOG_TAG
from orchestrator.schema.log_lines import LONGEST, Lines

LINE_END = re.compile(r"\r\n|\r|\n")
# TensorFlow 2.21 writes these lines at every start, at any log level. The log file keeps them.
CHATTER = re.compile(
    r"before absl::InitializeLog|port\.cc:\d+\] oneDNN|cpu_feature_guard\.cc|^To enable the following instructions"
)
# After a rank failed, horovodrun adds its own traceback, which adds nothing to the rank's.
LAUNCHER_TRACEBACK = "Traceback (most recent call last):"


@dataclass(frozen=True)
class Line:
    """A line of a log; not ``lasting`` if it is progress that the next line replaces."""

    text: str
    lasting: bool


def lines(pieces: Iterable[bytes]) -> Iterator[Line]:
    """Split a log that comes in ``pieces`` into lines; lines of ranks other than 0 start with the rank's number."""
    in_traceback, source = False, ""
    transient: dict[str, str] = {}  # last line of each source, shown as progress; a newline alone makes it last
    for text, lasting in _whole(_split(pieces)):
        tag = LOG_TAG.match(text)
        words = text[tag.end() :] if tag else text
        in_traceback = not tag and (in_traceback or words == LAUNCHER_TRACEBACK)
        source = tag[0] if tag else source if not text else ""
        before = transient.pop(source, "")
        shown = "" if in_traceback else _shown(tag, words)
        if not lasting:
            transient[source] = shown
        elif not words:  # horovodrun puts a tag between "\r" and "\n", and a piece may end there
            shown = before
        if shown:
            yield Line(shown, lasting)


def _shown(tag: re.Match[str] | None, words: str) -> str:
    """Return a line of the rank that ``tag`` names as people read it; empty if it is hidden."""
    if not words.strip() or CHATTER.search(words):
        return ""
    return f"[rank {tag[1]}] {words}" if tag and tag[1] != "0" else words


def _whole(parts: Iterable[tuple[str, bool]]) -> Iterator[tuple[str, bool]]:
    whole = Lines()
    for text, lasting in parts:
        for line in whole.add(text):
            yield line, lasting
    for line in whole.rest():
        yield line, True


def _split(pieces: Iterable[bytes]) -> Iterator[tuple[str, bool]]:
    decoder, rest = codecs.getincrementaldecoder("utf-8")(errors="replace"), ""
    for piece in pieces:
        rest, end = rest + decoder.decode(piece), 0
        for match in LINE_END.finditer(rest):
            yield rest[end : match.start()], match[0] != "\r"
            end = match.end()
        rest = rest[end:]
        if len(rest) > LONGEST:
            yield rest, True
            rest = ""
    if rest:
        yield rest, True


def without_chatter(words: Iterable[str]) -> list[str]:
    """Drop the lines that TensorFlow writes at every start."""
    return [line for line in words if not CHATTER.search(line)]
