"""Costs of a cluster, from the user's own price list."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Item:
    """A line of the bill: ``count`` pieces of ``name``; ``each`` and ``sum`` are per hour, None without a price."""

    name: str
    count: int
    each: float | None

    @property
    def sum(self) -> float | None:
        return None if self.each is None else self.count * self.each


def bill(priced: Mapping[str, int], prices: Mapping[str, float]) -> list[Item]:
    """Return the cost of each priced item."""
    return [Item(name, count, prices.get(name)) for name, count in priced.items()]


def total(items: Sequence[Item], currency: str) -> str:
    """Return the total per hour as text, with the names of items without a price."""
    priced = [item.sum for item in items if item.sum is not None]
    rest = ", ".join(item.name for item in items if item.sum is None)
    if not priced:
        return f"no price in `prices`: {rest}"
    return f"{sum(priced):.2f} {currency} per hour" + (
        f", plus resources without a price in `prices`: {rest}" if rest else ""
    )
