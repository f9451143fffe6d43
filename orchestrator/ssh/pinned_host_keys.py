"""Host keys, pinned on first contact by node id: a node that is created again may have a new key."""

import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from orchestrator import state
from orchestrator.cluster import Cluster, Node
from orchestrator.errors import NodesFailed, command
from orchestrator.lazy_imports import LazyModule
from orchestrator.ssh import connect, on_every_node
from orchestrator.ssh.channels import Unreachable
from orchestrator.ssh.route import open_route
from orchestrator.state import StateDir

if TYPE_CHECKING:
    import paramiko
else:
    paramiko = LazyModule("paramiko")

DEFAULT_PORT = 22
LONGEST_PAUSE = 2.0  # seconds


def pin(state_dir: StateDir, cluster: Cluster, pinned: Mapping[str, str], deadline: float) -> dict[str, str]:
    """Collect the host keys of all nodes and write known_hosts.

    Waits for each node to answer, and for new nodes to accept a login; nodes behind the head come after it.

    Args:
        state_dir: State directory of the cluster.
        cluster: Cluster whose nodes are up or starting.
        pinned: Known host keys by node id.
        deadline: Seconds to wait.

    Returns:
        Host keys by node id: pinned ones, and the ones that new nodes show.

    Raises:
        NodesFailed: A node did not answer, or refused the login, until the deadline.
    """
    until, keys = time.monotonic() + deadline, dict[str, str]()
    behind = [name for name in cluster.nodes if cluster.behind(name)]
    for names in ([name for name in cluster.nodes if name not in behind], behind):
        shown = _every(cluster, names, until, lambda name: _key(state_dir, cluster, name, pinned))
        keys |= {cluster.nodes[name].id: key for name, key in shown.items()}
        _write(state_dir, cluster, {**pinned, **keys})  # an interruption later loses no pinned key
        new = [name for name in names if cluster.nodes[name].id not in pinned]
        _every(cluster, new, until, lambda name: _login(state_dir, cluster, name))
    return keys


def _every(cluster: Cluster, names: Sequence[str], until: float, ask: Callable[[str], str]) -> dict[str, str]:
    """Call ``ask`` for each node, and retry until the time ``until``. Raises NodesFailed."""
    cancelled, began = threading.Event(), time.monotonic()
    try:
        keys, reasons = on_every_node(cluster, lambda name: _retry(lambda: ask(name), until, cancelled), names)
    finally:
        cancelled.set()  # else threads would keep waiting after Ctrl-C
    if reasons:
        remedy = f"{command('deploy', cluster.name)} tries again; a cloud lets in what --allow-from names"
        raise NodesFailed(f"no ssh within {time.monotonic() - began:.0f} s", reasons, remedy)
    return keys


def _key(state_dir: StateDir, cluster: Cluster, name: str, pinned: Mapping[str, str]) -> str:
    pinned_key = pinned.get(cluster.nodes[name].id)
    with open_route(state_dir, cluster, name) as way, way.explained():
        shown = (_greeting if pinned_key else _shown_key)(way.connection)
    return pinned_key or shown


def _login(state_dir: StateDir, cluster: Cluster, name: str) -> str:
    """Log in once: sshd may answer before the machine's first boot has created the account."""
    with connect(state_dir, cluster, name) as session:
        return session.node


def _write(state_dir: StateDir, cluster: Cluster, keys: Mapping[str, str]) -> None:
    entries = [(address, keys[n.id]) for n in cluster.nodes.values() if n.id in keys for address in _addresses(n)]
    state.replace(state_dir.known_hosts, "".join(f"{address} {key}\n" for address, key in entries))


def _retry(ask: Callable[[], str], until: float, cancelled: threading.Event) -> str:
    """Call ``ask`` until it succeeds or time is up.

    Pauses grow, since a slow sshd accepts only a limited number of connections at once.
    """
    pause = 0.1
    while True:
        try:
            return ask()
        except Unreachable:
            if time.monotonic() > until or cancelled.is_set():
                raise
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


def _greeting(connection: socket.socket) -> str:
    """Read sshd's first line, which is enough to know that a node with a pinned key answers."""
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
    """Return the node's addresses as OpenSSH and paramiko look them up."""
    addresses = sorted({node.address, node.private_address})
    return addresses if node.port == DEFAULT_PORT else [f"[{address}]:{node.port}" for address in addresses]
