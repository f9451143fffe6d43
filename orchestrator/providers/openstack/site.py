"""A cloud as one request sees it: each question asked once, names turned into what they mean there."""

from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, Protocol, TypeVar

from orchestrator.cloud import catalogue, holdings
from orchestrator.cloud.catalogue import Flavor, Image, Network
from orchestrator.cloud.connection import Cloud
from orchestrator.cloud.holdings import Holding
from orchestrator.config import Config, nearest
from orchestrator.errors import PreflightError
from orchestrator.state import Record


class _Named(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...


Thing = TypeVar("Thing", bound=_Named)
LISTED = 12


class Site:
    """What ``config`` asks of a cloud, where ``record`` is what this deployment was told before."""

    def __init__(self, config: Config, record: Record | None = None) -> None:
        """Raises PreflightError where there is no such cloud."""
        self.config, self.wanted, self.record = config, config.openstack, record
        self.cloud = Cloud(self.wanted.cloud)
        self.before: dict[str, Any] = record.variables.get("openstack", {}) if record else {}

    @cached_property
    def flavors(self) -> list[Flavor]:
        return catalogue.flavors(self.cloud)

    @cached_property
    def networks(self) -> list[Network]:
        return catalogue.networks(self.cloud)

    @cached_property
    def owned(self) -> list[Holding]:
        """What clusters of this name have there, whoever deployed them."""
        return [holding for holding in holdings.owned(self.cloud) if holding.cluster == self.config.name]

    @property
    def ours(self) -> list[Holding]:
        return [holding for holding in self.owned if self.record and holding.id == self.record.id]

    @property
    def servers(self) -> dict[str, Holding]:
        """Those of the deployment, by name."""
        return {holding.name: holding for holding in self.ours if holding.kind == "server"}

    @property
    def missing(self) -> list[str]:
        """Names of the nodes that are to be made, head first."""
        workers = [f"{self.config.name}-worker-{number}" for number in range(self.config.nodes - 1)]
        return [name for name in [f"{self.config.name}-head", *workers] if name not in self.servers]

    def flavor(self, role: str) -> Flavor:
        """Of the "head" or of a "worker"."""
        if role == "head" and self.wanted.head_flavor:
            return one("openstack.head_flavor", "flavor", self.wanted.head_flavor, self.flavors)
        return one("openstack.flavor", "flavor", self.wanted.flavor or "", self.flavors)

    @cached_property
    def known_flavors(self) -> dict[str, Flavor]:
        """By role, where there is such a flavor."""
        found = {}
        for role in ("head", "worker"):
            with suppress(PreflightError):
                found[role] = self.flavor(role)
        return found

    @property
    def pinned(self) -> str | None:
        """The image that the nodes were made of, where the configured name is still the same."""
        told = self.record.config.get("openstack", {}).get("image") if self.record else None
        return self.before.get("image") if told == self.wanted.image else None

    def image(self) -> Image | None:
        """The pinned one, else the newest of the name. None: nodes stand, and what they were made of is gone."""
        pinned = catalogue.image(self.cloud, self.pinned) if self.pinned else None
        if pinned or (self.pinned and self.servers):
            return pinned
        name = self.wanted.image or ""
        named = catalogue.images(self.cloud, name)
        if not named:
            return one("openstack.image", "image", name, catalogue.images(self.cloud))
        return next((image for image in named if image.status == "active"), named[0])

    def network(self) -> Network | None:
        """The existing one that the nodes shall be in."""
        name = self.wanted.network
        return one("openstack.network", "network", name, self.networks) if name else None

    def external(self) -> Network | None:
        """Where floating IPs come from, and where the made network's router leads to. None: neither is wanted."""
        known = [network for network in self.networks if network.external]
        if self.wanted.external_network:
            return one("openstack.external_network", "external network", self.wanted.external_network, known)
        if self.wanted.network and not self.wanted.floating_ip:
            return None
        same = [network for network in known if network.id == self.before.get("external_network")]
        if len(same or known) == 1:
            return (same or known)[0]
        if known:
            names = ", ".join(sorted(network.name for network in known))
            raise PreflightError(f"openstack.external_network: there are several: {names}", "name one of them")
        if self.wanted.floating_ip:
            hint = "with openstack.network and openstack.floating_ip: false none is needed"
            raise PreflightError("openstack.external_network: this project sees none", hint)
        return None


def one(key: str, kind: str, name: str, things: Sequence[Thing]) -> Thing:
    """That of ``things`` with this name, or with this id. Raises PreflightError where it is not exactly one."""
    found = [thing for thing in things if name in (thing.name, thing.id)]
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(sorted(thing.id for thing in found))
        raise PreflightError(f"{key}: there are {len(found)} {kind}s {name!r}", f"name one by its id: {ids}")
    names = sorted({thing.name for thing in things if thing.name})
    raise PreflightError(f"{key}: there is no {kind} {name!r}{nearest(name, names)}", listed(kind, names))


def listed(kind: str, names: Sequence[str]) -> str:
    """What there is instead, as far as a line carries it."""
    if not names:
        return f"this project sees no {kind} at all"
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return f"there are {', '.join(names[:LISTED])}{more}" if len(names) > 1 else f"there is {names[0]}"
