"""Google's machine types: their GPUs and vCPUs, and egress limits for links without measurements."""

from collections.abc import Iterator
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator.config import Config
from orchestrator.config.documents import read
from orchestrator.errors import ConfigError
from orchestrator.prediction.connection import NAMED, Doubt
from orchestrator.prediction.kinds import Named

FILE = Path(__file__).with_name("machine_types.yaml")
WITH_ADDED_GPUS = "n1-"
# Google promises no share of the limit, and names no latency: twice the doubt about a link that the user names.
UNMEASURED = Doubt(speed=2 * NAMED.speed, latency=2 * NAMED.latency)


class MachineType(NamedTuple):
    """A machine type: the most Gbit/s that it may send, its GPUs, and its vCPUs if it has no GPUs."""

    name: str
    gbit: float
    gpus: int
    cpus: int | None

    def link(self, latency: float | None = None) -> Named:
        """Return the link between instances; ``latency`` in seconds, None for that of the kind."""
        return Named(self.gbit * 1e9, "cloud", latency)


@cache
def known() -> dict[str, MachineType]:
    """Return the machine types by name."""
    table = read(FILE)
    gpus = dict(_flat("", table["gpus"]))
    return {name: _of(name, gbit, gpus.get(name, 0)) for name, gbit in _flat("", table["limits"])}


def cores(config: Config) -> float | None:
    """Return the vCPUs of a rank on Google's nodes without GPUs; None if they have some, or the table lacks them."""
    found = _configured(config)
    return found.cpus / (config.slots or 1) if found and found.cpus else None


def ranks(config: Config) -> int:
    """Return the ranks of a node: one for each GPU that its machine type is known to have, else one."""
    found = _configured(config)
    return max(1, found.gpus) if found else 1


def find(key: str, name: str, remedy: str) -> MachineType:
    """Return a machine type.

    Args:
        key: Key or option that names it, for the message.
        name: Its name.
        remedy: What to do if the table lacks it.

    Returns:
        The machine type.

    Raises:
        ConfigError: The table lacks it; the message has the nearest names, else the series that the table has.
    """
    found = known().get(name)
    if found is None:
        alike = ", ".join(get_close_matches(name, known()))
        names = (
            f"nearest: {alike}" if alike else f"it has {', '.join(f'{series}-…' for series in read(FILE)['limits'])}"
        )
        raise ConfigError([f"{key}: {name!r} is not in the table of Google's bandwidth limits ({names})"], remedy)
    return found


def _configured(config: Config) -> MachineType | None:
    """Return the machine type of the nodes with the GPUs that are added; None if the table lacks it."""
    gcp = config.gcp
    found = known().get(gcp.machine_type) if config.provider == "gcp" else None
    if found and gcp.accelerator and found.name.startswith(WITH_ADDED_GPUS):
        return found._replace(gpus=gcp.accelerators, cpus=None)
    return found


def _of(name: str, gbit: float, gpus: int) -> MachineType:
    return MachineType(name, gbit, gpus, None if gpus else int(name.rpartition("-")[2]))


def _flat(prefix: str, table: Any) -> Iterator[tuple[str, Any]]:
    """Yield (name, value) of nested mappings, keys joined by dashes."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(f"{prefix}{key}-", value)
        else:
            yield f"{prefix}{key}", value
