"""View of a cloud during one command: each request is made once, and names are resolved to the cloud's objects."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, Protocol, TypeVar

from orchestrator.cluster import node_names
from orchestrator.config import Config, nearest
from orchestrator.errors import PreflightError
from orchestrator.providers.openstack.api import catalogue, cluster_resources
from orchestrator.providers.openstack.api.catalogue import Flavor, Image, Network
from orchestrator.providers.openstack.api.cluster_resources import Holding
from orchestrator.providers.openstack.api.connection import Cloud
from orchestrator.providers.openstack.api.credentials import ANSWER_SECONDS
from orchestrator.providers.openstack.gpus import gpus
from orchestrator.state import Record


class _Named(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...


Thing = TypeVar("Thing", bound=_Named)
LISTED = 12
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Site:
    """Requirements of ``config`` on a cloud. ``record`` is the existing deployment, if there is one.

    ``seconds`` is the time that the cloud has for each answer.
    """

    def __init__(self, config: Config, record: Record | None = None, seconds: float = ANSWER_SECONDS) -> None:
        """Connect to the cloud. Raise PreflightError if there is no such cloud."""
        self.config, self.settings, self.record = config, config.openstack, record
        self.cloud = Cloud(self.settings.cloud, seconds)
        self.before: dict[str, Any] = record.variables.get("openstack", {}) if record else {}

    @cached_property
    def flavors(self) -> list[Flavor]:
        return catalogue.flavors(self.cloud, (self.settings.flavor, self.settings.head_flavor))

    @cached_property
    def networks(self) -> list[Network]:
        return catalogue.networks(self.cloud)

    @cached_property
    def owned(self) -> list[Holding]:
        """Return resources of clusters of this name, from any state directory."""
        return [holding for holding in cluster_resources.owned(self.cloud) if holding.cluster == self.config.name]

    @property
    def deployment_resources(self) -> list[Holding]:
        """Return resources of this deployment."""
        return [holding for holding in self.owned if self.record and holding.id == self.record.id]

    @property
    def servers(self) -> dict[str, Holding]:
        """Return this deployment's servers by name."""
        return {holding.name: holding for holding in self.deployment_resources if holding.kind == "server"}

    @property
    def volumes(self) -> list[Holding]:
        """Return the volumes from which this deployment's servers boot, as far as the configuration keeps them."""
        prefix = f"orchestrator-{self.config.name}-{self.record.id if self.record else ''}-"
        kept = {f"{prefix}{name.removeprefix(f'{self.config.name}-')}" for name in self.names}
        return [holding for holding in self.deployment_resources if holding.kind == "volume" and holding.name in kept]

    @property
    def names(self) -> list[str]:
        """Return the names of all nodes, head first."""
        return node_names(self.config.name, self.config.nodes)

    @property
    def missing(self) -> list[str]:
        """Return the names of the nodes to be made, head first."""
        return [name for name in self.names if name not in self.servers]

    def flavor(self, role: str) -> Flavor:
        """Return the flavor of the "head" or of a "worker"."""
        if role == "head" and self.settings.head_flavor:
            return find_one("openstack.head_flavor", "flavor", self.settings.head_flavor, self.flavors)
        return find_one("openstack.flavor", "flavor", self.settings.flavor or "", self.flavors)

    def gpus(self, role: str) -> int:
        """Return the GPUs of the "head" or of a "worker". ``openstack.gpus`` ignores a head with another flavor."""
        has_head_flavor = role == "head" and self.settings.head_flavor not in (None, self.settings.flavor)
        number = None if has_head_flavor else self.settings.gpus
        number = 0 if self.config.gpu.driver == "none" else number
        return gpus(self.flavor(role).properties) if number is None else number

    @cached_property
    def existing_flavors(self) -> dict[str, Flavor]:
        """Return the existing flavors by role."""
        by_role = {}
        for role in ("head", "worker"):
            with suppress(PreflightError):
                by_role[role] = self.flavor(role)
        return by_role

    def applied_flavor(self, role: str) -> Flavor | None:
        """Return the flavor of a role in the last deploy; None if it had none, or the cloud lost it."""
        applied = self.record.applied.get("openstack", {}).get(role) if self.record else None
        return next((flavor for flavor in self.flavors if flavor.id == (applied or {}).get("flavor")), None)

    @property
    def pinned(self) -> str | None:
        """Return the image that the nodes were made of, if its configured name is the same."""
        image = self.record.config.get("openstack", {}).get("image") if self.record else None
        return self.before.get("image") if image == self.settings.image else None

    def image(self) -> Image | None:
        """Return the pinned image, else the newest of the name; None if there are nodes and their image is gone."""
        pinned = catalogue.image(self.cloud, self.pinned) if self.pinned else None
        if pinned or (self.pinned and self.servers):
            return pinned
        name = self.settings.image or ""
        named = catalogue.images(self.cloud, name)
        if not named and (by_id := catalogue.image(self.cloud, name) if UUID.fullmatch(name) else None):
            return by_id  # lists leave out community images, and shared ones that are not accepted
        if not named:
            return find_one("openstack.image", "image", name, catalogue.images(self.cloud))
        return next((image for image in named if image.status == "active"), named[0])

    def network(self) -> Network | None:
        """Return the existing network for the nodes, if one is configured."""
        name = self.settings.network
        return find_one("openstack.network", "network", name, self.networks) if name else None

    def external(self) -> Network | None:
        """Return the network of floating IPs and of the new network's router; None if neither is needed."""
        candidates = [network for network in self.networks if network.external]
        if self.settings.external_network:
            return find_one(
                "openstack.external_network", "external network", self.settings.external_network, candidates
            )
        if self.settings.network and not self.settings.floating_ip:
            return None
        same = [network for network in candidates if network.id == self.before.get("external_network")]
        if len(same or candidates) == 1:
            return (same or candidates)[0]
        if candidates:
            names = ", ".join(sorted(network.name for network in candidates))
            raise PreflightError(f"openstack.external_network: there are several: {names}", "name one of them")
        if self.settings.floating_ip:
            hint = "none is needed with openstack.network and openstack.floating_ip: false"
            raise PreflightError("openstack.external_network: this project has access to none", hint)
        return None


def require_same_login(config: Config, before: Mapping[str, Any], cloud: Cloud) -> None:
    """Check that the credentials lead to the project and region in which the cluster was deployed.

    Elsewhere the cluster's resources would look removed, and its state would be forgotten.

    Args:
        config: Configuration of the cluster.
        before: Variables of the deployment for Terraform.
        cloud: Where the credentials lead.

    Raises:
        PreflightError: They lead elsewhere; nothing was changed.
    """
    for key in ("project", "region"):
        now = cloud.login[key]
        if before.get(key) and before[key] != now:
            raise PreflightError(
                f"cluster {config.name!r} is in {key} {before[key]}, the credentials of {cloud.title} are for {now}",
                "use those with which the cluster was deployed: OS_CLOUD, OS_CLIENT_CONFIG_FILE or OS_* variables",
            )


def find_one(key: str, kind: str, name: str, things: Sequence[Thing]) -> Thing:
    """Return the only item of ``things`` with this name or id.

    Args:
        key: Key of cluster.yaml that has the name.
        kind: Kind of the things, for messages.
        name: Name or id.
        things: Existing things.

    Returns:
        The thing.

    Raises:
        PreflightError: There is no such thing, or more than one.
    """
    matches = [thing for thing in things if name in (thing.name, thing.id)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        ids = ", ".join(sorted(thing.id for thing in matches))
        raise PreflightError(f"{key}: there are {len(matches)} {kind}s {name!r}", f"name one by its id: {ids}")
    names = sorted({thing.name for thing in things if thing.name})
    raise PreflightError(f"{key}: there is no {kind} {name!r}{nearest(name, names)}", listed(kind, names))


def listed(kind: str, names: Sequence[str]) -> str:
    """Return the existing names as a hint, at most LISTED of them."""
    if not names:
        return f"this project has access to no {kind}"
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return f"there are {', '.join(names[:LISTED])}{more}" if len(names) > 1 else f"there is {names[0]}"
