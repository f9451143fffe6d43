"""Host keys, pinned at first sight by the id of the node: a node that is made anew may show a new one."""

import socket
import threading
import time
from collections.abc import Callable, Mapping

import paramiko

from orchestrator import state
from orchestrator.cluster import Cluster, Node
from orchestrator.errors import NodesFailed, command
from orchestrator.ssh import on_every_node
from orchestrator.ssh.session import CONNECT_SECONDS, FAULTS, Unreachable
from orchestrator.state import Home


def pin(place: Home, cluster: Cluster, pinned: Mapping[str, str], deadline: float) -> dict[str, str]:
    """Host keys by node id: the ones ``pinned`` already, and for new nodes the one they show now.

    Waits up to ``deadline`` seconds for each to answer; writes known_hosts. Raises NodesFailed.
    """
    until, given_up = time.monotonic() + deadline, threading.Event()

    def key_of(name: str) -> str:
        node = cluster.nodes[name]
        known = pinned.get(node.id)
        shown = _insist(_greeting if known else _shown_key, node, until, given_up)
        return known or shown

    try:
        keys, reasons = on_every_node(cluster, key_of)
    finally:
        given_up.set()  # after a Ctrl-C threads would wait on
    if reasons:
        raise NodesFailed(f"no ssh within {deadline:.0f} s", reasons, f"{command('deploy', cluster.name)} tries again")
    lines = [f"{address} {keys[name]}\n" for name, node in cluster.nodes.items() for address in _addresses(node)]
    state.replace(place.known_hosts, "".join(lines))
    return {cluster.nodes[name].id: key for name, key in keys.items()}


def _insist(ask: Callable[[socket.socket], str], node: Node, until: float, given_up: threading.Event) -> str:
    """What ``ask`` gives on a connection to ``node``, tried until it is time."""
    while True:
        try:
            with socket.create_connection((node.address, 22), CONNECT_SECONDS) as connection:
                return ask(connection)
        except FAULTS as error:
            if time.monotonic() > until or given_up.is_set():
                raise Unreachable(str(error)) from error
            time.sleep(0.1)


def _greeting(connection: socket.socket) -> str:
    """Sshd's first line: that it is there is enough to know of a node whose key is pinned."""
    line = connection.recv(256)
    if not line.startswith(b"SSH-"):
        raise EOFError("no sshd answers")
    return line.decode(errors="replace")


def _shown_key(connection: socket.socket) -> str:
    transport = paramiko.Transport(connection)
    try:
        transport.start_client(timeout=CONNECT_SECONDS)
        key = transport.get_remote_server_key()
        return f"{key.get_name()} {key.get_base64()}"
    finally:
        transport.close()


def _addresses(node: Node) -> list[str]:
    return sorted({node.address, node.private_address})
