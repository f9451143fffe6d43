"""Providers of nodes: one package each, with the functions of :class:`Provider`, looked up by name.

All other differences between providers are in ``terraform/<provider>/`` and in the provider's config model.
"""

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from orchestrator.cluster import Cluster
from orchestrator.config import Config
from orchestrator.state import Record, StateDir


@dataclass(frozen=True)
class Resource:
    """Resource that a provider holds for a cluster.

    ``key`` is the provider's own id of it, ``state_identity`` its identity in Terraform's state, if that is different.
    """

    kind: str
    name: str
    key: str
    usable: bool = True
    state_identity: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def identity(self) -> str:
        """Return the identity of the resource in Terraform's state."""
        return self.state_identity or self.key


class Provider(Protocol):
    """Functions of a provider's module."""

    def preflight(self, config: Config, record: Record | None) -> None:
        """Raise PreflightError, with all findings at once, if this cluster could not be made."""

    def default_allow_from(self, config: Config, record: "Record | None") -> list[str]:
        """Return the networks from which the nodes see this machine: the default of ``allow_from``."""

    def variables(self, config: Config, record: Record) -> dict[str, Any]:
        """Return the provider's own object among Terraform's variables. Make no resources."""

    def gpu_and_image(self, config: Config, record: "Record | None") -> tuple[str | None, str]:
        """Return the provider's name for the nodes' GPUs (None without GPUs), and its name for their image."""

    def prepare(self, record: Record, state_dir: StateDir) -> None:
        """Build the images that the nodes need."""

    def unmanaged(self, state_dir: StateDir, record: Record) -> Sequence[Resource]:
        """Return unrecorded resources of this deployment, for ``provision`` to remove. Change nothing.

        Raises:
            StateError: A resource may be where the cluster stores its data.
        """

    def provision(
        self, state_dir: StateDir, record: Record, unmanaged: Sequence[Resource], on_line: Callable[[str], None]
    ) -> tuple[Cluster, dict[str, str]]:
        """Make the cluster that ``record.variables`` describe.

        Args:
            state_dir: State directory of the cluster.
            record: Record of the deployment.
            unmanaged: Resources to remove first, from :meth:`unmanaged`.
            on_line: Receives lines of progress.

        Returns:
            The cluster, and the reasons for missing nodes if the remaining ones are enough.
        """

    def destroy(self, state_dir: StateDir, record: Record, on_line: Callable[[str], None]) -> None:
        """Remove the resources that :meth:`provision` made.

        Args:
            state_dir: State directory of the cluster.
            record: Record of the deployment.
            on_line: Receives lines of progress.
        """

    def list_resources(self, record: Record) -> list[Resource]:
        """Return every resource that the provider holds for this deployment, found by label or tag."""

    def to_replace(self, record: Record, recorded: Mapping[str, str]) -> list[str]:
        """Return addresses in ``recorded`` (address -> identity) to make again, which Terraform would not notice."""

    def failure_reasons(self, record: Record) -> dict[str, str]:
        """Return the nodes that could not be made, each with the provider's own reason."""

    def unowned_resources(self, config: Config) -> list[Resource]:
        """Return every resource that carries the label of the cluster's name, of any deployment."""

    def remove(self, config: Config, resources: Iterable[Resource]) -> None:
        """Remove the resources in an order that works. Resources that are already gone are no error."""

    def priced(self, config: Config) -> dict[str, int]:
        """Return the number of each item that has a price."""

    def trainer_digest(self, record: Record) -> str:
        """Return the digest of the trainer that the nodes must have."""


def get(name: str) -> Provider:
    """Return the module of provider ``name``, imported on demand: each needs its own client library."""
    return cast(Provider, importlib.import_module(f"orchestrator.providers.{name}"))


def of_one_machine(record: Record) -> bool:
    """Tell whether the nodes are parts of one machine, with no network between them."""
    return bool(record.config["provider"] == "local")


def of(record: Record) -> Provider:
    """Return the provider of a cluster that is deployed, at least in part."""
    return get(record.config["provider"])
