"""Print the changes that a deploy would make, and what the cluster costs."""

import math
from collections.abc import Sequence

from orchestrator.cli import output
from orchestrator.config import Config
from orchestrator.lifecycle import prices
from orchestrator.lifecycle.prices import Item
from orchestrator.terraform import Change


def resource_changes(config: Config, changes: Sequence[Change]) -> None:
    """Print the changes that a deploy would make."""
    output.line(f"cluster {config.name}: {config.nodes} nodes with provider {config.provider}")
    if changes:
        output.table(("change", "what", "name"), [(c.action, c.kind, c.name) for c in changes])
    else:
        hosts = "; deploy configures the hosts of hosts.addresses" if config.provider == "hosts" else ""
        output.line(f"no resource would be created, changed or removed{hosts}")


def costs(items: Sequence[Item], currency: str) -> None:
    """Print the costs per hour, and name items without a price."""
    rows = [(i.count, i.name, _price(i.each, currency), _price(i.sum, currency)) for i in items]
    if rows:
        output.line()
        output.table(("count", "what", "per hour", "together"), rows)
        output.line(prices.total(items, currency))


def _price(value: float | None, currency: str) -> str:
    """Return a price with two decimals, and with more if it is so low that these have less than two digits."""
    if value is None:
        return "no price"
    decimals = 1 - math.floor(math.log10(value)) if 0 < value < 0.1 else 2
    return f"{value:.{decimals}f} {currency}"
