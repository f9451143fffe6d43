"""Numbers of a published table that contradict each other, found by arithmetic on what was printed. Pure.

===============  ===============================================================================================
what             rule
===============  ===============================================================================================
seconds          seconds x images/s = samples
speed-up         printed speed-up = quotient of the seconds, or of the images/s
efficiency       printed efficiency = speed-up / ranks, whether the speed-up is printed or follows
reading          both readings of an ambiguous text ("4s 9ms") give the same speed-up
unit             an accuracy is at most 1, an efficiency at most 2: larger ones are percent
twice            a number that is printed twice is the same both times
===============  ===============================================================================================

Two numbers contradict each other if no numbers that would be printed so agree (:class:`.published_numbers.Range`).
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from statistics import median
from typing import Literal, NamedTuple

from orchestrator.schema.studies import Published
from orchestrator.studies.report import published_numbers
from orchestrator.studies.report.published_numbers import Position, Precision, Range

Kind = Literal["seconds", "speed-up", "efficiency", "reading", "unit", "twice"]
SHARES = {"top1": (1, "accuracy"), "efficiency": (2, "efficiency")}  # the most that a share can be, and its name
ENOUGH = 3  # pairs of seconds and images/s that tell how many samples a table means


class Contradiction(NamedTuple):
    """Published numbers of one cell that cannot all be true, and a sentence that says why."""

    kind: Kind
    cell: dict[str, str | int | float | bool]
    column: str
    source: str
    message: str


class Table(NamedTuple):
    """All published numbers with their precision; ``samples`` are the training samples by data set, if known."""

    numbers: Sequence[Published]
    precision: Precision
    samples: Mapping[str, float | None]


def find(numbers: Sequence[Published], samples: Callable[[str], int | None] = lambda _: None) -> list[Contradiction]:
    """Return what contradicts itself.

    Args:
        numbers: Published numbers; accuracies from 0 to 1.
        samples: Returns the training samples behind one time by data set, of "" for numbers that name none. None
            derives them from the numbers of this data set, which mostly agree.

    Returns:
        Contradictions in the order of the rules and of the numbers.
    """
    datasets = dict.fromkeys(map(_dataset, numbers))
    table = Table(numbers, Precision(numbers), {name: samples(name) or _samples(numbers, name) for name in datasets})
    return [
        contradiction
        for rule in (_seconds, _speed_up, _efficiency, _reading, _unit, _twice)
        for contradiction in rule(table)
    ]


def _dataset(number: Published) -> str:
    return str(number.cell.get("dataset", ""))


def _samples(numbers: Sequence[Published], dataset: str) -> float | None:
    """Return the samples that a data set's pairs of seconds and images/s mostly agree on, to three digits."""
    alike = [number for number in numbers if _dataset(number) == dataset]
    products = [seconds.value * speed.value for seconds, speed in _pairs(alike)]
    if not dataset or len(products) < ENOUGH:  # numbers that name no data set can be of several
        return None
    return float(f"{median(products):.3g}")


def _seconds(table: Table) -> Iterator[Contradiction]:
    for seconds, speed in _pairs(table.numbers):
        count = table.samples[_dataset(seconds)]
        if count is None:
            continue
        if not Range(count, count).over(table.precision.range(seconds)).meets(table.precision.range(speed)):
            yield _contradiction(
                "seconds",
                speed,
                f"prints {_words(speed)} and {_words(seconds)}, but {count:,.0f} samples in that time are "
                f"{count / seconds.value:,.0f} images/s",
            )


def _speed_up(table: Table) -> Iterator[Contradiction]:
    for number in _of(table.numbers, "speed_up"):
        for metric, derived, value in _derived_speed_ups(table, number):
            if not derived.meets(table.precision.range(number)):
                yield _contradiction(
                    "speed-up", number, f"prints a speed-up of {_words(number)}, but by its {metric} it is {value:.3g}"
                )


def _efficiency(table: Table) -> Iterator[Contradiction]:
    for number in _of(table.numbers, "efficiency"):
        ranks = published_numbers.ranks(number)
        if ranks < 1:
            continue
        speed_ups = [
            ("printed speed-up", table.precision.range(other), other.value)
            for other in _of(table.numbers, "speed_up")
            if published_numbers.position(other) == published_numbers.position(number)
        ]
        for metric, derived, value in [*speed_ups, *_derived_speed_ups(table, number)]:
            per_rank = Range(derived.low / ranks, derived.high / ranks)
            if not per_rank.meets(table.precision.range(number)):
                yield _contradiction(
                    "efficiency",
                    number,
                    f"prints an efficiency of {_words(number)}, but by its {metric} it is {value / ranks:.3g}",
                )


def _reading(table: Table) -> Iterator[Contradiction]:
    """Compare the speed-up of whole seconds with that of the values, which may be steps x milliseconds."""
    for number in _of(table.numbers, "seconds"):
        base = published_numbers.base_of(number, table.numbers)
        if base is None or not (_is_positive(number) and _is_positive(base)):
            continue
        whole, base_whole = published_numbers.whole_seconds(number), published_numbers.whole_seconds(base)
        if not whole or not base_whole:
            continue
        coarse, fine = base_whole / whole, table.precision.range(base).over(table.precision.range(number))
        if not fine.low <= coarse <= fine.high:
            yield _contradiction(
                "reading",
                number,
                f'prints "{number.text}" where {published_numbers.name(base)} has "{base.text}": whole seconds give a '
                f"speed-up of {coarse:.3g}, steps x milliseconds give {base.value / number.value:.3g}",
            )


def _unit(table: Table) -> Iterator[Contradiction]:
    for metric, (limit, name) in SHARES.items():
        for number in _of(table.numbers, metric):
            if number.value > limit:
                clause = f"has an {name} of {number.value:g}, which is percent: {number.value / 100:g}"
                yield _contradiction("unit", number, clause)


def _twice(table: Table) -> Iterator[Contradiction]:
    for first, second in combinations(table.numbers, 2):
        same = (first.metric, published_numbers.position(first)) == (
            second.metric,
            published_numbers.position(second),
        )
        if same and not table.precision.range(first).meets(table.precision.range(second)):
            yield _contradiction(
                "twice", second, f"prints {_words(second)}, but {_words(first)} stands in {first.source}"
            )


def _derived_speed_ups(table: Table, number: Published) -> Iterator[tuple[str, Range, float]]:
    """Yield the speed-up of a number's cell over one rank by each metric that has it, with what it can be."""
    for other in table.numbers:
        if other.metric not in ("seconds", "images_per_second") or published_numbers.position(
            other
        ) != published_numbers.position(number):
            continue
        base = published_numbers.base_of(other, table.numbers)
        if base is None or published_numbers.ranks(base) > 1 or not (_is_positive(other) and _is_positive(base)):
            continue
        top, bottom = (base, other) if other.metric == "seconds" else (other, base)
        derived = table.precision.range(top).over(table.precision.range(bottom))
        yield other.metric.replace("_per_second", "/s"), derived, top.value / bottom.value


def _pairs(numbers: Sequence[Published]) -> list[tuple[Published, Published]]:
    """Return the seconds and images per second that stand in the same cell and column, both positive."""
    positions: dict[Position, dict[str, Published]] = defaultdict(dict)
    for number in numbers:
        if _is_positive(number):
            positions[published_numbers.position(number)].setdefault(number.metric, number)
    both = (by for by in positions.values() if by.keys() >= {"seconds", "images_per_second"})
    return [(by["seconds"], by["images_per_second"]) for by in both]


def _is_positive(number: Published) -> bool:
    return number.value > 0 and math.isfinite(number.value)


def _of(numbers: Sequence[Published], metric: str) -> list[Published]:
    return [number for number in numbers if number.metric == metric]


def _contradiction(kind: Kind, number: Published, clause: str) -> Contradiction:
    message = f"{published_numbers.name(number)} {clause}"
    return Contradiction(kind, dict(number.cell), number.column, number.source, message)


UNITS: Mapping[str, Callable[[float], str]] = {
    "seconds": lambda value: f"{value:g} s",
    "images_per_second": lambda value: f"{value:,.10g} images/s",
    "top1": lambda value: f"{value:.2%}",
    "efficiency": lambda value: f"{value:.4g}",
    "speed_up": lambda value: f"{value:g}",
}


def _words(number: Published) -> str:
    return UNITS[number.metric](number.value)
