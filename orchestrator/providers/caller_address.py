"""Find the address by which a cloud's nodes see this machine: only this address may connect to them by ssh."""

import socket
from collections.abc import Iterable
from ipaddress import AddressValueError, IPv4Address
from typing import TYPE_CHECKING

from orchestrator.errors import PreflightError
from orchestrator.lazy_imports import LazyModule

if TYPE_CHECKING:
    import requests
else:
    requests = LazyModule("requests")

ECHO = "https://checkip.amazonaws.com"
ECHO_SECONDS = 5


def caller_addresses(targets: Iterable[str], echo: str | None = None) -> list[str]:
    """Return one network: this machine's address as the nodes see it.

    If packets to a target with a global address leave with a global source address, they arrive with it. If packets to
    a private target leave with a private source address, they pass only through networks that know that address. In all
    other cases addresses are translated on the way, and a server outside is asked for the result.

    Args:
        targets: Addresses or names near the nodes, the nearest first.
        echo: URL of a server that answers with the caller's address; default: a server of Amazon.

    Raises:
        PreflightError: The server outside did not answer with an address.
    """
    for target in targets:
        address = _resolved(target)
        source = _source(address) if address else None
        if address and source and arrives(source, address):
            return [f"{source}/32"]
    return [f"{_echoed(echo or ECHO)}/32"]


def arrives(source: IPv4Address, target: IPv4Address) -> bool:
    """Tell whether packets from ``source`` to ``target`` arrive with the same sender address."""
    return not source.is_loopback and (source.is_global or not target.is_global)


def _resolved(target: str) -> IPv4Address | None:
    try:
        return IPv4Address(socket.gethostbyname(target))
    except OSError:
        return None


def _source(target: IPv4Address) -> IPv4Address | None:
    """Return the address with which packets to ``target`` leave. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        try:
            out.connect((str(target), 22))
        except OSError:
            return None
        return IPv4Address(out.getsockname()[0])


def _echoed(echo: str) -> IPv4Address:
    """Return the address that a server outside sees. No proxy is used, because ssh does not use it either."""
    try:
        with requests.Session() as session:
            session.trust_env = False
            answer = session.get(echo, timeout=ECHO_SECONDS)
            answer.raise_for_status()
            return IPv4Address(answer.text.strip())
    except (requests.RequestException, AddressValueError) as error:
        raise PreflightError(
            "allow_from: this machine's address as the cloud sees it could not be found out", "`--allow-from CIDR`"
        ) from error
