"""What differs between providers on this side: one module each, with the same functions, looked up by name.

Everything else about a provider stands in ``terraform/<provider>/`` and in its config model.
"""

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from orchestrator.cluster import Cluster
from orchestrator.config import Config
from orchestrator.state import Home, Record


@dataclass(frozen=True)
class Resource:
    """Something that a provider holds for a cluster.

    ``key`` is the provider's own id of it, ``known_as`` what Terraform's state has as its identity, if that is another.
    """

    kind: str
    name: str
    key: str
    usable: bool = True
    known_as: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def identity(self) -> str:
        """What Terraform knows it by."""
        return self.known_as or self.key


class Provider(Protocol):
    """The functions of a provider's module."""

    def preflight(self, config: Config, record: Record | None) -> None:
        """Raise PreflightError, with all that is found at once, where this cluster could not be made."""

    def callers(self, config: Config, record: "Record | None") -> list[str]:
        """Networks that the nodes see this machine in: what ``allow_from`` is where the user does not say."""

    def variables(self, config: Config, record: Record) -> dict[str, Any]:
        """What only this provider has: the object of its name among Terraform's variables. Makes nothing."""

    def accelerated(self, config: Config, record: "Record | None") -> tuple[str | None, str]:
        """What the provider calls the nodes' GPUs (None: they have none), and what it calls their image."""

    def prepare(self, record: Record, place: Home) -> None:
        """Build what nodes are made of."""

    def strays(self, place: Home, record: Record) -> Sequence[Resource]:
        """What is held for this deployment and is not recorded as made, for ``provision`` to remove.

        Raises StateError if this could be what the cluster stores its data on. Changes nothing.
        """

    def provision(
        self, place: Home, record: Record, strays: Sequence[Resource], on_line: Callable[[str], None]
    ) -> tuple[Cluster, dict[str, str]]:
        """The cluster of ``record.variables``, and why nodes are missing where the rest is enough."""

    def destroy(self, place: Home, record: Record, on_line: Callable[[str], None]) -> None:
        """Take away what :meth:`provision` made."""

    def survey(self, record: Record) -> list[Resource]:
        """Everything the provider holds for this deployment, found by label or tag."""

    def lost(self, record: Record, recorded: Mapping[str, str]) -> list[str]:
        """Which of ``recorded`` (Terraform's address -> identity) must be made anew, as Terraform would not notice."""

    def faults(self, record: Record) -> dict[str, str]:
        """Nodes that could not be made, each with what the provider itself says of it."""

    def strangers(self, config: Config) -> list[Resource]:
        """Everything that carries the label of the cluster's name, of whatever deployment."""

    def remove(self, config: Config, resources: Iterable[Resource]) -> None:
        """Remove them, in an order that works; gone already is fine."""

    def priced(self, config: Config) -> dict[str, int]:
        """How many there are of each thing that has a price."""

    def trainer_digest(self, record: Record) -> str:
        """Which trainer the nodes must have."""


def get(name: str) -> Provider:
    """The module of provider ``name``, imported when it is needed: each brings its own client library."""
    return cast(Provider, importlib.import_module(f"orchestrator.providers.{name}"))


def of_one_machine(record: Record) -> bool:
    """Whether the nodes are parts of one machine, with no network between them."""
    return bool(record.config["provider"] == "local")


def of(record: Record) -> Provider:
    """The provider of a cluster that is deployed, at least in part."""
    return get(record.config["provider"])
