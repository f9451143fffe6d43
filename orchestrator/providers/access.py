"""The address that a cloud's nodes see this machine by: it alone may ssh into them."""

import socket
from collections.abc import Iterable
from ipaddress import AddressValueError, IPv4Address

import requests

from orchestrator.errors import PreflightError

ECHO = "https://checkip.amazonaws.com"
ECHO_SECONDS = 5


def caller_addresses(targets: Iterable[str], echo: str | None = None) -> list[str]:
    """The one network that has this machine's address alone, as the nodes see it.

    ``targets`` are addresses (or names) near the nodes, the nearest first. What leaves for one of them with a global
    address arrives with it; what leaves for a private one with a private address was sent through networks that know
    that address. In all other cases something translates addresses on the way, and ``echo`` says what to; a server of
    Amazon's, unless another is named.
    """
    for target in targets:
        there = _resolved(target)
        source = _source(there) if there else None
        if there and source and arrives(source, there):
            return [f"{source}/32"]
    return [f"{_echoed(echo or ECHO)}/32"]


def arrives(source: IPv4Address, target: IPv4Address) -> bool:
    """Whether what ``source`` sends to ``target`` has the same sender there."""
    return not source.is_loopback and (source.is_global or not target.is_global)


def _resolved(target: str) -> IPv4Address | None:
    try:
        return IPv4Address(socket.gethostbyname(target))
    except OSError:
        return None


def _source(target: IPv4Address) -> IPv4Address | None:
    """The address that packets to ``target`` leave with; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        try:
            out.connect((str(target), 22))
        except OSError:
            return None
        return IPv4Address(out.getsockname()[0])


def _echoed(echo: str) -> IPv4Address:
    """What a server outside sees, without a proxy: ssh does not go through it either."""
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
