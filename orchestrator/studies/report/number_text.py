"""Numbers and estimates as text, the same in every format. Pure."""

import math
from collections.abc import Callable

from orchestrator import progress
from orchestrator.studies.confidence_intervals import Estimate

MISSING = "-"
NOT_REACHED = "not reached"


def number(value: float) -> str:
    """Return four significant digits, or all digits before the point."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) < 1e-4:
        return f"{value:.3g}"
    return f"{value:#.4g}".removesuffix(".")


def exact(value: float) -> str:
    """Return all digits of a number as it was printed."""
    return f"{value:,.12g}"


def factor(value: float) -> str:
    """Return a ratio with three decimals from 0.01 to 10, else four significant digits."""
    return f"{value:.3f}" if value == 0 or 0.01 <= abs(value) < 10 else number(value)


def percent(value: float) -> str:
    """Return a share in percent, without the sign."""
    return f"{value * 100:.1f}"


def milliseconds(seconds: float) -> str:
    """Return seconds as milliseconds, without the unit."""
    return number(seconds * 1e3)


def estimate(value: Estimate | None, form: Callable[[float], str] = number) -> str:
    """Return the value and its interval in brackets; the value alone if it has no interval."""
    if value is None:
        return MISSING
    if value.interval is None:
        return form(value.value)
    return f"{form(value.value)} [{form(value.interval.low)}, {form(value.interval.high)}]"


def time_to(value: Estimate | None, reached: int) -> str:
    """Return a time that is infinite for launches that did not reach their goal, and how many launches did."""
    if value is None:
        return MISSING
    text = estimate(value)
    if math.isinf(value.value):
        text = NOT_REACHED
    elif value.interval and math.isinf(value.interval.high):
        text = f"{number(value.value)} [> {number(value.interval.low)}]"
    return f"{text}, {reached} of {value.n}"


def maybe(value: float | None, form: Callable[[float], str] = number) -> str:
    """Return a number that may be missing."""
    return MISSING if value is None else form(value)


def plain(text: object) -> str:
    """Return one line without control characters: names come from files that others wrote."""
    return " ".join(progress.plain(str(text)).split())
