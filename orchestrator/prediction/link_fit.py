"""A link from the messages that ``orchestrator check`` measured, and how far other measurements could move it."""

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

from orchestrator.prediction.allreduce_time import SMALL, Link, Ring, ring


class Point(NamedTuple):
    """A measured allreduce.

    Attributes:
        ranks: Number of ranks.
        bytes: Size of the message.
        seconds: Duration.
        cpu: CPU seconds of the rank that used most; None if not measured.
        steps: Latencies of the link that it waited for; None if all steps of the ring use this link.
        within: Seconds that it waited for latencies within nodes.
    """

    ranks: int
    bytes: float
    seconds: float
    cpu: float | None = None
    steps: int | None = None
    within: float = 0.0


def link(points: Sequence[Point], load: float) -> Link:
    """Fit latency and seconds per byte, up to SMALL and beyond, by least squares of relative errors.

    ``points`` are of one or several sizes and numbers of ranks; ``load`` is the core-seconds per byte if they do not
    tell. A message of ``check`` does not wait for Horovod's cycle.
    """
    usable = [point for point in points if point.ranks > 1]
    rows = [([value / point.seconds for value in _row(point)], 1 - point.within / point.seconds) for point in usable]
    alpha, small, large = _least_squares(rows)
    return _with_load(Link(alpha, large or small, small), usable, load)


def resampled(points: Sequence[Point], fitted: Link, draw: random.Random) -> list[Point]:
    """Return points around the fit with relative errors drawn from those of the measured points."""
    expected = [_seconds(point, fitted) for point in points]
    errors = [point.seconds / seconds for point, seconds in zip(points, expected, strict=True)]
    return [
        point._replace(seconds=seconds * draw.choice(errors)) for point, seconds in zip(points, expected, strict=True)
    ]


def _row(point: Point) -> Ring:
    row = ring(point.bytes, point.ranks)
    return row._replace(steps=point.steps or row.steps)


def _seconds(point: Point, link: Link) -> float:
    steps, small, large = _row(point)
    return point.within + steps * link.alpha + small * link.beta_small + large * link.beta


def _with_load(link: Link, points: Sequence[Point], otherwise: float) -> Link:
    """Add the core-seconds per message, which the shortest messages show, and per byte sent, which the longest shows.

    A message of ``check`` is one tensor, which Horovod copies once, to memory that is allocated for it. That takes as
    long as training's copies into a buffer that stays and out of it, so that ``load`` contains them.
    """
    used = [(point, point.cpu) for point in points if point.cpu is not None]
    small = [cpu for point, cpu in used if point.bytes <= SMALL]
    large = [(point.bytes, point, cpu) for point, cpu in used if point.bytes > SMALL]
    if not small or not large:
        return replace(link, load=otherwise)
    size, longest, cpu = max(large)
    per_byte = max(0.0, cpu - min(small)) / (2 * (longest.ranks - 1) / longest.ranks * size)
    return replace(link, load=per_byte, load_message=min(small), copy=0.0)


def _least_squares(rows: Sequence[tuple[Sequence[float], float]]) -> tuple[float, float, float]:
    """Return the coefficients x, none negative, with the least sum of squares of row x - value."""
    best, chosen = float("inf"), (0.0, 0.0, 0.0)
    for used in (some for count in (1, 2, 3) for some in combinations(range(3), count)):
        solution = _solve([([row[index] for index in used], value) for row, value in rows])
        if solution is None or min(solution) < 0:
            continue
        coefficients = dict(zip(used, solution, strict=True))
        error = sum((value - sum(row[index] * x for index, x in coefficients.items())) ** 2 for row, value in rows)
        if error < best:
            best, chosen = error, (coefficients.get(0, 0.0), coefficients.get(1, 0.0), coefficients.get(2, 0.0))
    return chosen


def _solve(rows: Sequence[tuple[Sequence[float], float]]) -> list[float] | None:
    """Solve the normal equations of rows x = value by elimination; None if they have no single solution."""
    size = len(rows[0][0])
    matrix = [
        [*(sum(row[i] * row[j] for row, _ in rows) for j in range(size)), sum(row[i] * value for row, value in rows)]
        for i in range(size)
    ]
    for column in range(size):
        pivot = max(range(column, size), key=lambda row: abs(matrix[row][column]))
        if abs(matrix[pivot][column]) < 1e-300:
            return None
        matrix[column], matrix[pivot] = matrix[pivot], matrix[column]
        for row in range(size):
            if row != column:
                factor = matrix[row][column] / matrix[column][column]
                matrix[row] = [a - factor * b for a, b in zip(matrix[row], matrix[column], strict=True)]
    return [matrix[row][size] / matrix[row][row] for row in range(size)]
