"""What a cluster costs, by a price list of the user's own."""

from collections.abc import Mapping
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
