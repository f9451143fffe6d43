"""Host keys, pinned at first sight by the id of the node: a node that is made anew may show a new one."""

import socket
import time
from collections.abc import Mapping

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
    until = time.monotonic() + deadline

    def key_of(name: str) -> str:
        node = cluster.nodes[name]
        return pinned.get(node.id) or _shown_key(node, until)

    keys, reasons = on_every_node(cluster, key_of)
    if reasons:
        raise NodesFailed(f"no ssh within {deadline:.0f} s", reasons, f"{command('deploy', cluster.name)} tries again")
    lines = [f"{address} {keys[name]}\n" for name, node in cluster.nodes.items() for address in _addresses(node)]
    state.replace(place.known_hosts, "".join(lines))
    return {cluster.nodes[name].id: key for name, key in keys.items()}


def _shown_key(node: Node, until: float) -> str:
    while True:
        try:
            with socket.create_connection((node.address, 22), CONNECT_SECONDS) as connection:
                transport = paramiko.Transport(connection)
                try:
                    transport.start_client(timeout=CONNECT_SECONDS)
                    key = transport.get_remote_server_key()
                    return f"{key.get_name()} {key.get_base64()}"
                finally:
                    transport.close()
        except FAULTS as error:
            if time.monotonic() > until:
                raise Unreachable(str(error)) from error
            time.sleep(0.1)


def _addresses(node: Node) -> list[str]:
    return sorted({node.address, node.private_address})
