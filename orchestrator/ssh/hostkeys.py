"""Host keys, pinned at first sight by the id of the node: a node that is made anew may show a new one."""

import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import paramiko

from orchestrator import state
from orchestrator.cluster import Cluster, Node
from orchestrator.errors import NodesFailed, command
from orchestrator.ssh import connect, on_every_node
from orchestrator.ssh.reach import reached
from orchestrator.ssh.session import Unreachable
from orchestrator.state import Home

DEFAULT_PORT = 22
LONGEST_PAUSE = 2.0  # seconds


def pin(place: Home, cluster: Cluster, pinned: Mapping[str, str], deadline: float) -> dict[str, str]:
    """Host keys by node id: the ones ``pinned`` already, and for new nodes the one they show now.

    Waits up to ``deadline`` seconds for each to answer, and for new ones to let us in; those behind the head come after
    it. Writes known_hosts. Raises NodesFailed.
    """
    until, keys = time.monotonic() + deadline, dict[str, str]()
    behind = [name for name in cluster.nodes if cluster.behind(name)]
    for names in ([name for name in cluster.nodes if name not in behind], behind):
        found = _every(cluster, names, until, lambda name: _key(place, cluster, name, pinned))
        keys |= {cluster.nodes[name].id: key for name, key in found.items()}
        _write(place, cluster, {**pinned, **keys})  # whatever ends this, no node that is pinned loses its key
        new = [name for name in names if cluster.nodes[name].id not in pinned]
        _every(cluster, new, until, lambda name: _login(place, cluster, name))
    return keys


def _every(cluster: Cluster, names: Sequence[str], until: float, ask: Callable[[str], str]) -> dict[str, str]:
    """What ``ask`` gives of each node, tried until it is time. Raises NodesFailed."""
    given_up, began = threading.Event(), time.monotonic()
    try:
        found, reasons = on_every_node(cluster, lambda name: _insist(lambda: ask(name), until, given_up), names)
    finally:
        given_up.set()  # after a Ctrl-C threads would wait on
    if reasons:
        remedy = f"{command('deploy', cluster.name)} tries again; a cloud lets in what --allow-from names"
        raise NodesFailed(f"no ssh within {time.monotonic() - began:.0f} s", reasons, remedy)
    return found


def _key(place: Home, cluster: Cluster, name: str, pinned: Mapping[str, str]) -> str:
    known = pinned.get(cluster.nodes[name].id)
    with reached(place, cluster, name) as way, way.explained():
        shown = (_greeting if known else _shown_key)(way.connection)
    return known or shown


def _login(place: Home, cluster: Cluster, name: str) -> str:
    """A machine's sshd may answer before its first boot has made our account."""
    with connect(place, cluster, name) as session:
        return session.node


def _write(place: Home, cluster: Cluster, keys: Mapping[str, str]) -> None:
    known = [(address, keys[n.id]) for n in cluster.nodes.values() if n.id in keys for address in _addresses(n)]
    state.replace(place.known_hosts, "".join(f"{address} {key}\n" for address, key in known))


def _insist(ask: Callable[[], str], until: float, given_up: threading.Event) -> str:
    """What ``ask`` gives, tried until it is time; ever more slowly, for a slow sshd takes only so many at once."""
    pause = 0.1
    while True:
        try:
            return ask()
        except Unreachable:
            if time.monotonic() > until or given_up.is_set():
                raise
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


def _greeting(connection: socket.socket) -> str:
    """Sshd's first line: that it is there is enough to know of a node whose key is pinned."""
    line = connection.recv(256)
    if not line.startswith(b"SSH-"):
        raise EOFError("no sshd answers")
    return line.decode(errors="replace")


def _shown_key(connection: socket.socket) -> str:
    seconds = connection.gettimeout()  # which paramiko shortens to a tenth of a second
    transport = paramiko.Transport(connection)
    try:
        transport.start_client(timeout=seconds)
        key = transport.get_remote_server_key()
        return f"{key.get_name()} {key.get_base64()}"
    finally:
        transport.close()


def _addresses(node: Node) -> list[str]:
    """As OpenSSH and paramiko look them up."""
    found = sorted({node.address, node.private_address})
    return found if node.port == DEFAULT_PORT else [f"[{address}]:{node.port}" for address in found]
