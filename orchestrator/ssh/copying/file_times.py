"""Times of files in nanoseconds: parsed and written as in commands of nodes, and compared as file systems keep them."""

SECOND = 10**9  # nanoseconds
UNITS: list[int] = [10**digits for digits in range(10)]  # of a time in nanoseconds, up to a second


def parse_find(seconds: str) -> int:
    """Return a time that `find` prints, which rounds down: half a second before 1970 is -1.5. Raises ValueError."""
    whole, fraction = _parts(seconds)
    return whole * SECOND + fraction


def parse_stat(seconds: str) -> int:
    """Return a time that `stat` prints: half a second before 1970 is -0.5. Raises ValueError."""
    whole, fraction = _parts(seconds)
    return whole * SECOND + (-fraction if seconds.startswith("-") else fraction)


def _parts(seconds: str) -> tuple[int, int]:
    """Return the seconds before the decimal point, and the nanoseconds behind it."""
    whole, _, fraction = seconds.partition(".")
    if len(whole) > 12:
        raise ValueError(f"{seconds[:200]!r}")
    return int(whole), int(fraction[:9].ljust(9, "0"))


def as_seconds(time: int) -> str:
    """Write a time for `touch`, in seconds with a decimal point."""
    whole, fraction = divmod(abs(time), SECOND)
    return f"{'-' if time < 0 else ''}{whole}.{fraction:09}"


def same_time(one: int, other: int) -> bool:
    """Compare times in nanoseconds, as precisely as both file systems keep them: some cut off the last digits."""
    unit = max(unit for unit in UNITS for time in (one, other) if time % unit == 0)
    return one // unit == other // unit
