"""Numbers as a paper printed them: how exact they are, and what an ambiguous text can mean. Pure."""

import re
from collections.abc import Iterable, Sequence
from statistics import median_low
from typing import NamedTuple

from orchestrator.schema.studies import Published

NUMBER = re.compile(r"(?P<digits>\d[\d,]*(?:\.(?P<decimals>\d+))?|\.(?P<bare>\d+))\s*(?P<percent>%)?")
KERAS_TIME = re.compile(r"(?P<seconds>\d+)\s*s\s+(?P<milliseconds>\d+)\s*ms")  # "4s 9ms" of Keras' progress bar
ACROSS = frozenset({"ranks", "nodes"})  # keys in which a cell differs from its base case

Position = tuple[frozenset[tuple[str, object]], str]


class Range(NamedTuple):
    """Range of a printed number: one unit of its last digit to either side, since it may be cut or rounded."""

    low: float
    high: float

    def meets(self, other: "Range") -> bool:
        """Return whether both can stand for the same number."""
        return self.low <= other.high and other.low <= self.high

    def over(self, other: "Range") -> "Range":
        """Return the range of the quotient of positive numbers."""
        return Range(self.low / other.high, self.high / other.low)


def position(number: Published, without: frozenset[str] = frozenset()) -> Position:
    """Return what two numbers of the same cell and column have in common; ``without`` ignores keys of the cell."""
    return frozenset((key, value) for key, value in number.cell.items() if key not in without), number.column


def name(number: Published) -> str:
    """Return cell and column in words."""
    cell = cell_name(number)
    return f"{cell}, {number.column}" if number.column else cell


def cell_name(number: Published) -> str:
    """Return the cell in words."""
    return ", ".join(_value(key, value) for key, value in number.cell.items())


def _value(key: str, value: object) -> str:
    if key in ACROSS:
        return f"{value} {key.removesuffix('s') if value == 1 else key}"
    return f"{key} {value}" if isinstance(value, (int, float)) else str(value)


def decimals(number: Published) -> int:
    """Return how many decimals of the value were printed; a percentage has two more than its text."""
    match = NUMBER.fullmatch(number.text.strip())
    if match:
        return len(match["decimals"] or match["bare"] or "") + 2 * bool(match["percent"])
    return len(f"{number.value:.12f}".rstrip("0").partition(".")[2])


class Precision:
    """Decimals of a table. Tables drop zeros at the end: 3 in a column with 4.132 and 3.447 stands for 3.000.

    A number is therefore as exact as the metric usually is in its source, or as its own digits if those are more.
    """

    def __init__(self, numbers: Iterable[Published]) -> None:
        by_metric: dict[tuple[str, str], list[int]] = {}
        for number in numbers:
            by_metric.setdefault((number.source, number.metric), []).append(decimals(number))
        self.usual = {key: median_low(counts) for key, counts in by_metric.items()}

    def range(self, number: Published) -> Range:
        """Return what the number can stand for."""
        unit = 10.0 ** -max(decimals(number), self.usual[number.source, number.metric])
        return Range(max(number.value - unit, unit / 1e3), number.value + unit)


def whole_seconds(number: Published) -> float | None:
    """Return the seconds that a text such as "4s 9ms" names if it is not read as "4 s, 9 ms per step"."""
    match = KERAS_TIME.search(number.text)
    return float(match["seconds"]) if match and number.metric == "seconds" else None


def base_of(number: Published, numbers: Sequence[Published]) -> Published | None:
    """Return the same number for the fewest ranks, None if the table has no smaller cell."""
    alike = [
        other
        for other in numbers
        if other.metric == number.metric
        and position(other, ACROSS) == position(number, ACROSS)
        and 0 < ranks(other) < ranks(number)
    ]
    return min(alike, key=ranks, default=None)


def ranks(number: Published) -> int:
    """Return the number of ranks (else of nodes) of the cell, 0 if it names none."""
    value = number.cell.get("ranks", number.cell.get("nodes", 0))
    return int(value) if isinstance(value, (int, float)) else 0
