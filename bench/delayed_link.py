"""Delay packets among local nodes, on kernels without tc-netem(8). Needs root and ``ip`` (Debian's iproute2).

Each node gets a TUN device (Linux' Documentation/networking/tuntap.rst) and a route through it to every other node.
This process reads the packets that a node sends, and writes them to the receiver's device when the delay is over.
Packets are jumbo frames of 9,000 bytes, so that 200 Mbit/s cost this process some 10 % of a core.
"""

import fcntl
import os
import select
import socket
import struct
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from bench.harness import inspected

DEVICE = "delayed0"  # in each node
MTU = 9000  # bytes
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000  # linux/if_tun.h
DESTINATION = slice(16, 20)  # of an IPv4 header (RFC 791)


def address(node: str) -> str:
    """Return a node's IPv4 address in its cluster's network."""
    return inspected(node, "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}")


def add_device(node: str, own: str, others: Sequence[str]) -> int:
    """Add a TUN device to a node, with a route to each other node.

    Args:
        node: Name of the node's container.
        own: The node's IPv4 address.
        others: IPv4 addresses of the other nodes.

    Returns:
        The device's file descriptor; the device is removed when it is closed.
    """
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    outside = f"d{descriptor}-{os.getpid()}"[:15]
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH22x", outside.encode(), IFF_TUN | IFF_NO_PI))
    pid = inspected(node, "{{.State.Pid}}")
    subprocess.run(["ip", "link", "set", outside, "netns", pid, "name", DEVICE], check=True)
    inside = ["nsenter", "--target", pid, "--net", "ip"]
    subprocess.run([*inside, "link", "set", DEVICE, "mtu", str(MTU), "up"], check=True)
    for other in others:
        subprocess.run([*inside, "route", "add", f"{other}/32", "dev", DEVICE, "src", own], check=True)
    return descriptor


def forward(devices: dict[bytes, int], seconds: float, stopped: threading.Event) -> None:
    """Forward packets to the device of their destination, each ``seconds`` after it was read, until ``stopped``."""
    waiting: deque[tuple[float, bytes]] = deque()  # in the order of their times, since all wait equally long
    while not stopped.is_set():
        idle = max(0.0, waiting[0][0] - time.monotonic()) if waiting else 0.1
        readable, _, _ = select.select(list(devices.values()), [], [], idle)
        due = time.monotonic() + seconds
        for descriptor in readable:
            waiting.append((due, os.read(descriptor, MTU)))
        while waiting and waiting[0][0] <= time.monotonic():
            packet = waiting.popleft()[1]
            if receiver := devices.get(packet[DESTINATION]):
                os.write(receiver, packet)


@contextmanager
def delayed(nodes: Sequence[str], seconds: float) -> Iterator[str]:
    """Delay every packet from one node to another by ``seconds``, and yield the device through which it leaves."""
    addresses = {node: address(node) for node in nodes}
    devices: dict[bytes, int] = {}
    stopped = threading.Event()
    forwarding = threading.Thread(target=forward, args=(devices, seconds, stopped), daemon=True)
    try:
        for node, own in addresses.items():
            others = [other for other in addresses.values() if other != own]
            devices[socket.inet_aton(own)] = add_device(node, own, others)
        forwarding.start()
        yield DEVICE
    finally:
        stopped.set()
        if forwarding.ident:
            forwarding.join()
        for descriptor in devices.values():
            os.close(descriptor)
