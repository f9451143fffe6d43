"""Connections to one or several nodes; the only user of paramiko."""

import contextlib
import logging
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from orchestrator.cluster import Cluster
from orchestrator.errors import command
from orchestrator.lazy_imports import LazyModule
from orchestrator.schema.bounded_files import read_text
from orchestrator.ssh.channels import Unreachable
from orchestrator.ssh.openssh import identity, proxied, ssh_options, tunnel
from orchestrator.ssh.parse_answers import parsed
from orchestrator.ssh.route import Route, open_route
from orchestrator.ssh.session import Answer, Session
from orchestrator.state import StateDir

if TYPE_CHECKING:
    import paramiko
else:
    paramiko = LazyModule("paramiko")

__all__ = ["Answer", "Session", "Unreachable", "client_command", "connect", "in_parallel", "on_every_node", "parsed"]

Value = TypeVar("Value")
FASTEST = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com")
# Connections at once, without and with a jump host, whose sshd refuses some from ten that have not logged in yet
# (sshd_config(5), MaxStartups).
AT_ONCE = {False: 32, True: 8}
DEAD_MILLISECONDS = 20_000  # a connection is dead if sent data stays unacknowledged for so long

logging.getLogger("paramiko").addHandler(logging.NullHandler())  # its threads would write to standard error


@contextlib.contextmanager
def connect(state_dir: StateDir, cluster: Cluster, name: str) -> Iterator[Session]:
    """Open a session on a node whose host key is pinned.

    Args:
        state_dir: State directory of the cluster.
        cluster: Deployed cluster.
        name: Name of the node.

    Yields:
        The session.

    Raises:
        Unreachable: The node cannot be reached, shows another host key, or a local key file cannot be read.
    """
    if not state_dir.known_hosts.exists():
        raise Unreachable(f"its host key is not known yet: {command('deploy', cluster.name)} finishes the cluster")
    client, key = paramiko.SSHClient(), _key(state_dir)
    _load_host_keys(client, state_dir, cluster)
    client.set_missing_host_key_policy(paramiko.RejectPolicy())
    with contextlib.closing(client), open_route(state_dir, cluster, name) as way:
        with way.explained():
            _open(client, way, key, cluster, name)
        yield Session(name, client)


def _key(state_dir: StateDir) -> "paramiko.PKey":
    try:
        return paramiko.Ed25519Key.from_private_key_file(str(state_dir.key))
    except Exception as error:  # paramiko raises many types for a damaged file
        reason = getattr(error, "strerror", None) or "it is no private key of OpenSSH"
        raise Unreachable(f"{state_dir.key} cannot be read: {reason}: restore it from a copy") from error


def _load_host_keys(client: "paramiko.SSHClient", state_dir: StateDir, cluster: Cluster) -> None:
    try:
        read_text(state_dir.known_hosts)
        client.load_host_keys(str(state_dir.known_hosts))
    except Exception as error:  # see _key
        remedy = f"remove it, and {command('deploy', cluster.name)} writes it again"
        raise Unreachable(f"{state_dir.known_hosts} cannot be read: {remedy}") from error


def _open(client: "paramiko.SSHClient", way: Route, key: "paramiko.PKey", cluster: Cluster, name: str) -> None:
    node = cluster.nodes[name]
    client.connect(
        node.address,
        port=node.port,
        sock=way.connection,
        username=cluster.ssh_user,
        pkey=key,
        banner_timeout=way.seconds,
        auth_timeout=way.seconds * 2,
        transport_factory=_transport,
        allow_agent=False,
        look_for_keys=False,
    )
    transport = client.get_transport()
    if transport:
        transport.set_keepalive(10)
        if way.connection.family != socket.AF_UNIX and hasattr(socket, "TCP_USER_TIMEOUT"):  # on Linux
            way.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DEAD_MILLISECONDS)


def _transport(connection: Any, /, **options: Any) -> "paramiko.Transport":
    """Return a transport that prefers the fastest cipher: paramiko's own order costs a third of a copy's speed."""
    transport = paramiko.Transport(connection, **options)
    security = transport.get_security_options()
    security.ciphers = sorted(security.ciphers, key=lambda cipher: cipher not in FASTEST)
    return transport


def on_every_node(
    cluster: Cluster, action: Callable[[str], Value], chosen: Sequence[str] | None = None
) -> tuple[dict[str, Value], dict[str, str]]:
    """Call ``action(name)`` for nodes in parallel.

    Args:
        cluster: Deployed cluster.
        action: Function of a node's name; it fails by raising Unreachable.
        chosen: Names of nodes; default: all.

    Returns:
        Results by node, and reasons by node that failed.
    """
    return in_parallel(list(cluster.nodes if chosen is None else chosen), action, AT_ONCE[bool(cluster.jump)])


def in_parallel(
    names: Sequence[str], action: Callable[[str], Value], most: int = AT_ONCE[False]
) -> tuple[dict[str, Value], dict[str, str]]:
    """Call ``action(name)`` for ``names`` in parallel.

    Args:
        names: Names to call it with.
        action: Function of a name; it fails by raising Unreachable.
        most: Largest number of parallel calls.

    Returns:
        Results by name, and reasons by name that failed.
    """
    results: dict[str, Value] = {}
    reasons: dict[str, str] = {}
    waiting, bugs = deque(names), list[BaseException]()

    def attempt(name: str) -> None:
        try:
            results[name] = action(name)
        except Unreachable as error:
            reasons[name] = str(error)
        except BaseException as error:
            bugs.append(error)

    def work() -> None:
        with contextlib.suppress(IndexError):  # all are taken
            while not bugs:
                attempt(waiting.popleft())

    try:
        _run_in_threads(work, min(most, len(names)))
    finally:
        waiting.clear()
    if bugs:
        raise bugs[0]
    return {n: results[n] for n in names if n in results}, {n: reasons[n] for n in names if n in reasons}


def _run_in_threads(work: Callable[[], None], count: int) -> None:
    """Call ``work`` in parallel. Unlike those of a ThreadPoolExecutor, the threads end with an interrupted command."""
    threads = [threading.Thread(target=work, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def client_command(
    state_dir: StateDir, cluster: Cluster, name: str, argv: Sequence[str] = (), options: Sequence[str] = ()
) -> list[str]:
    """Build the OpenSSH command for a node.

    Args:
        state_dir: State directory of the cluster.
        cluster: Deployed cluster.
        name: Name of the node.
        argv: Command to run on the node; default: a terminal.
        options: Further options of the OpenSSH client.

    Returns:
        The argument list.
    """
    node = cluster.nodes[name]
    through = proxied(tunnel(cluster, name, state_dir.key, state_dir.known_hosts))
    login = ["ssh", *identity(state_dir.key), *ssh_options(state_dir.known_hosts), *through, *options]
    return [*login, "-p", str(node.port), f"{cluster.ssh_user}@{node.address}", *argv]
