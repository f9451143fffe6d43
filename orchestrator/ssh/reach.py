"""The way to a node's sshd: straight, through the head, or through a machine of the user's own."""

import contextlib
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from orchestrator import process
from orchestrator.cluster import Cluster
from orchestrator.openssh import tunnel
from orchestrator.ssh.session import CONNECT_SECONDS, FAULTS, Unreachable
from orchestrator.state import Home

FIRST_SECONDS = 30.0  # for what sshd says first: an emulated or busy machine computes keys for many seconds


@dataclass(frozen=True)
class Way:
    """A connection to a node's sshd.

    ``seconds`` is how long its first answers may take, ``said`` gives what a program in between has complained of.
    """

    connection: socket.socket
    seconds: float
    said: Callable[[], str]

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Raises Unreachable where what is done on the connection fails."""
        try:
            yield
        except FAULTS as error:
            raise Unreachable(self.said() or str(error) or type(error).__name__) from error


@contextlib.contextmanager
def reached(place: Home, cluster: Cluster, name: str) -> Iterator[Way]:
    """A connection to the sshd of node ``name``, closed at the end. Raises Unreachable where there is no way."""
    way = _way(place, cluster, name)
    with way.connection:
        way.connection.settimeout(way.seconds)
        yield way


def _way(place: Home, cluster: Cluster, name: str) -> Way:
    node, through = cluster.nodes[name], tunnel(cluster, name, place.key, place.known_hosts)
    if through:
        connection, said = process.connected(through)
        return Way(connection, 2 * FIRST_SECONDS, said)  # two logins
    try:
        connection = socket.create_connection((node.address, node.port), CONNECT_SECONDS)
    except FAULTS as error:
        raise Unreachable(str(error) or type(error).__name__) from error
    return Way(connection, FIRST_SECONDS, lambda: "")
