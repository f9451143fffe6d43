"""Google's machine types: their GPUs and vCPUs, and egress limits for links without measurements."""

from collections.abc import Iterator
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator.config import Config
from orchestrator.config.yaml_documents import read
from orchestrator.errors import ConfigError
from orchestrator.prediction.link_kinds import Limit

FILE = Path(__file__).with_name("machine_types.yaml")
WITH_ADDED_GPUS = "n1-"


class MachineType(NamedTuple):
    """A machine type: the most Gbit/s that it may send, its GPUs, and its vCPUs if it has no GPUs."""

    name: str
    gbit: float
    gpus: int
    cpus: int | None

    @property
    def limit(self) -> Limit:
        """Return the limit of an instance's link."""
        return Limit(self.gbit * 1e9, f"Google's limit for {self.name}")


@cache
def by_name() -> dict[str, MachineType]:
    """Return the machine types by name."""
    table = read(FILE)
    gpus = dict(_flat("", table["gpus"]))
    return {name: _of(name, gbit, gpus.get(name, 0)) for name, gbit in _flat("", table["limits"])}


def cores(config: Config) -> float | None:
    """Return the vCPUs of a rank on Google's nodes without GPUs; None if they have some, or the table lacks them."""
    machine_type = _configured(config)
    return machine_type.cpus / (config.slots or 1) if machine_type and machine_type.cpus else None


def ranks(config: Config) -> int:
    """Return the ranks of a node: one for each GPU that its machine type is known to have, else one."""
    machine_type = _configured(config)
    return max(1, machine_type.gpus) if machine_type else 1


def has_head_without_gpu(config: Config) -> bool:
    """Tell whether Google's workers have GPUs, and the head has a machine type that is known to have none."""
    worker, head = _configured(config), None
    if config.gcp.head_machine_type:
        gcp = config.gcp.model_copy(update={"machine_type": config.gcp.head_machine_type})
        head = _configured(config.model_copy(update={"gcp": gcp}))
    return bool(worker and worker.gpus and head and not head.gpus)


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
    machine_type = by_name().get(name)
    if machine_type is None:
        alike = ", ".join(get_close_matches(name, by_name()))
        names = (
            f"nearest: {alike}" if alike else f"it has {', '.join(f'{series}-…' for series in read(FILE)['limits'])}"
        )
        raise ConfigError([f"{key}: {name!r} is not in the table of Google's bandwidth limits ({names})"], remedy)
    return machine_type


def _configured(config: Config) -> MachineType | None:
    """Return the machine type of the nodes with the GPUs that are added; None if the table lacks it."""
    gcp = config.gcp
    machine_type = by_name().get(gcp.machine_type) if config.provider == "gcp" else None
    if machine_type and gcp.accelerator and machine_type.name.startswith(WITH_ADDED_GPUS):
        return machine_type._replace(gpus=gcp.accelerators, cpus=None)
    return machine_type


def _of(name: str, gbit: float, gpus: int) -> MachineType:
    return MachineType(name, gbit, gpus, None if gpus else int(name.rpartition("-")[2]))


def _flat(prefix: str, table: Any) -> Iterator[tuple[str, Any]]:
    """Yield (name, value) of nested mappings, keys joined by dashes."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(f"{prefix}{key}-", value)
        else:
            yield f"{prefix}{key}", value
