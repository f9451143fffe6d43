"""Bandwidth limits of flavors, read from their extra specs."""

from collections.abc import Iterable, Mapping

from orchestrator.config import Config
from orchestrator.prediction.link_kinds import Limit
from orchestrator.providers.openstack.cloud_objects import Site

ANSWER_SECONDS = 3.0  # `predict` is no command to wait for a cloud with
# Nova's guide, "Resource limits", section libvirt: kilobytes of 1000 bytes per second, for each network interface.
_KEYS, _UNIT = ("quota:vif_inbound_average", "quota:vif_outbound_average"), 8e3


def limits(config: Config, roles: Iterable[str]) -> list[Limit]:
    """Ask the cloud for the limits of the flavors of ``roles``, as far as it sets some and the account sees them.

    Raises:
        PreflightError: The credentials are missing or wrong, the cloud does not answer, or it has no such flavor.
        CommandFailed: The cloud refused the request.
    """
    site = Site(config, seconds=ANSWER_SECONDS)
    rates = ((flavor.name, limit(flavor.properties)) for flavor in map(site.flavor, roles))
    return [Limit(rate, f"the cloud's limit for flavor {name}") for name, rate in rates if rate]


def limit(properties: Mapping[str, str]) -> float | None:
    """Return the bits/s that a server may both send and receive, on average; None without a limit."""
    values = [properties.get(key, "").strip() for key in _KEYS]
    return min((int(value) * _UNIT for value in values if value.isdecimal() and int(value)), default=None)
