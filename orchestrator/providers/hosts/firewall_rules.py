"""Rules of the hosts' firewall ufw, which must admit every other host of the cluster."""

from collections.abc import Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network

from orchestrator.errors import PreflightError
from orchestrator.providers.hosts.survey_answers import HostSurvey, SurveyedHost


def blocked(surveyed: Sequence[SurveyedHost]) -> list[PreflightError]:
    """Return an error for each host whose ufw does not admit all others.

    Ranks listen on any port, and the head serves /shared: a blocked host would fail much later, without a reason.
    """
    errors = []
    for host in surveyed:
        others = {other.address for other in surveyed if other is not host and other.address}
        refused = [address for address in sorted(others) if host.survey and not _admits(host.survey, address)]
        if refused:
            message = (
                f"hosts.addresses: {host.login}: its firewall ufw does not admit {', '.join(refused)} to all ports"
            )
            rules = " && ".join(f"sudo ufw allow from {address}" for address in refused)
            errors.append(PreflightError(message, f"there: `{rules}`"))
    return errors


def _admits(survey: HostSurvey, address: str) -> bool:
    return survey.ufw != "active" or any(_contains(network, address) for network in survey.ufw_admits)


def _contains(network: str, address: str) -> bool:
    if network == "Anywhere":
        return True
    with suppress(ValueError):
        return IPv4Address(address) in IPv4Network(network.removesuffix("/tcp").removesuffix("/udp"), strict=False)
    return False
