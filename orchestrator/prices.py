"""What a cluster costs, by a price list of the user's own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Item:
    """``count`` pieces of ``name``; ``each`` and ``sum`` are per hour, None where the list has no price of it."""

    name: str
    count: int
    each: float | None

    @property
    def sum(self) -> float | None:
        return None if self.each is None else self.count * self.each


def bill(priced: Mapping[str, int], prices: Mapping[str, float]) -> list[Item]:
    """What each thing that has a price comes to."""
    return [Item(name, count, prices.get(name)) for name, count in priced.items()]


def total(items: Sequence[Item], currency: str) -> str:
    """What they come to per hour in words, with the names of those that have no price."""
    known = sum(item.sum for item in items if item.sum is not None)
    rest = ", ".join(item.name for item in items if item.sum is None)
    return f"{known:.2f} {currency} per hour" + (f", and what has no price in `prices`: {rest}" if rest else "")
