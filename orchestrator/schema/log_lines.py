"""Lines of a run's log, put together from the pieces in which mpirun writes them. Pure."""

import re
from collections.abc import Iterable, Iterator

LONGEST = 1 << 16  # characters of a line; the rest becomes the next line
MPI_TAG = re.compile(r"\[1,\d+\]<(?:stdout|stderr)>:")  # mpirun writes one before every piece of output


class Lines:
    """Lines of a log; between the pieces of one, mpirun may have written pieces of other ranks."""

    def __init__(self) -> None:
        self.begun: dict[str, str] = {}

    def add(self, line: str) -> Iterator[str]:
        """Yield the line that ``line`` of the log ends, with one tag. Pieces before it are begins of other lines."""
        if not MPI_TAG.match(line):
            yield line
            return
        tags = MPI_TAG.findall(line)
        for tag, piece in zip(tags, MPI_TAG.split(line)[1:], strict=True):
            self.begun[tag] = self.begun.get(tag, "") + piece
            if len(self.begun[tag]) > LONGEST:
                yield tag + self.begun.pop(tag)
        if tags[-1] in self.begun:
            yield tags[-1] + self.begun.pop(tags[-1])

    def rest(self) -> Iterator[str]:
        """Yield lines that have no end."""
        for tag, words in self.begun.items():
            yield tag + words


def whole(log: Iterable[str]) -> list[str]:
    """Return the lines of a complete log."""
    lines = Lines()
    return [*(line for part in log for line in lines.add(part)), *lines.rest()]
