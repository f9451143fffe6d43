"""What differs between providers on this side: one module each, with the same functions, looked up by name.

Everything else about a provider stands in ``terraform/<provider>/`` and in its config model.
"""

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

from orchestrator.config import Config, stored
from orchestrator.state import Home, Record


@dataclass(frozen=True)
class Resource:
    """Something that a provider holds for a cluster; ``key`` is the provider's own id of it."""

    kind: str
    name: str
    key: str
    usable: bool = True

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class Provider(Protocol):
    """The functions of a provider's module."""

    def preflight(self, config: Config, record: Record | None) -> None:
        """Raise PreflightError where this cluster could not be made."""

    def variables(self, config: Config, record: Record, place: Home) -> dict[str, Any]:
        """What only this provider's Terraform root takes. May build what nodes are made of."""

    def survey(self, record: Record) -> list[Resource]:
        """Everything the provider holds for this deployment, found by label or tag."""

    def lost(self, record: Record, recorded: Mapping[str, str]) -> list[str]:
        """Which of ``recorded`` (Terraform's address -> name) must be made anew: Terraform itself would not notice."""

    def strangers(self, name: str) -> list[Resource]:
        """Everything that carries the label of cluster ``name``, of whatever deployment."""

    def remove(self, resources: Iterable[Resource]) -> None:
        """Remove them, in an order that works; gone already is fine."""

    def trainer_digest(self, config: Config) -> str:
        """Which trainer the nodes must have."""


def get(name: str) -> Provider:
    """The module of provider ``name``, imported when it is needed: each brings its own client library."""
    return cast(Provider, importlib.import_module(f"orchestrator.providers.{name}"))


def trainer_of(record: Record) -> str:
    """Which trainer the nodes of a deployed cluster must have."""
    return get(record.config["provider"]).trainer_digest(stored(record.config))
