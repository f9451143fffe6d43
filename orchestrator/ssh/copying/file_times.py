"""Times of files in nanoseconds: parsed as nodes give them, and compared as file systems keep them."""

SECOND = 10**9  # nanoseconds
UNITS: list[int] = [10**digits for digits in range(10)]  # of a time in nanoseconds, up to a second


def nanoseconds(seconds: str) -> int:
    """Return a time that a node gives in seconds with a decimal point. Raises ValueError."""
    whole, _, fraction = seconds.partition(".")
    if len(whole) > 12:
        raise ValueError(f"{seconds[:200]!r}")
    return int(whole) * SECOND + int(fraction[:9].ljust(9, "0"))


def same_time(one: int, other: int) -> bool:
    """Compare times in nanoseconds, as precisely as both file systems keep them: some cut off the last digits."""
    unit = max(unit for unit in UNITS for time in (one, other) if time % unit == 0)
    return one // unit == other // unit
