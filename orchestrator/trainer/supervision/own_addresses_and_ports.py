"""Addresses and ports of this machine."""

import random
import socket
from contextlib import suppress

PORTS = range(20000, 28000)  # below those that Linux gives to outgoing connections (32768 and up)
ATTEMPTS = 100


def is_local(host: str) -> bool:
    """Check that this machine has the address: only then can a socket bind to it."""
    return _binds(host, 0, socket.SOCK_DGRAM)


def towards(host: str) -> str:
    """Return the address of this machine from which it reaches ``host``; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unsent:
        unsent.connect((host, 9))
        address: str = unsent.getsockname()[0]
    return address


def free_ports(count: int) -> int:
    """Find ``count`` consecutive ports that are free on this machine, at random, and return the first of them."""
    for _ in range(ATTEMPTS):
        first = random.choice(PORTS)  # noqa: S311  no secret
        if all(_binds("", port, socket.SOCK_STREAM) for port in range(first, first + count)):
            return first
    raise OSError(f"no {count} consecutive ports from {PORTS.start} to {PORTS.stop} are free on this machine")


def _binds(host: str, port: int, kind: socket.SocketKind) -> bool:
    with suppress(OSError), socket.socket(socket.AF_INET, kind) as bound:
        bound.bind((host, port))
        return True
    return False
