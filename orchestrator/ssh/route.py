"""Open a socket to a node's sshd: directly, through the head, or through the user's jump host."""

import contextlib
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from orchestrator import process
from orchestrator.cluster import Cluster
from orchestrator.ssh.openssh import tunnel
from orchestrator.ssh.session import CONNECT_SECONDS, FAULTS, Unreachable
from orchestrator.state import Home

FIRST_SECONDS = 30.0  # for sshd's first answer: an emulated or busy machine computes keys for many seconds


@dataclass(frozen=True)
class Way:
    """A connection to a node's sshd.

    ``seconds`` limits its first answers; ``said`` returns the error output of a program in between.
    """

    connection: socket.socket
    seconds: float
    said: Callable[[], str]

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Raise Unreachable, with the reason, if an operation on the connection fails."""
        try:
            yield
        except FAULTS as error:
            raise Unreachable(self.said() or str(error) or type(error).__name__) from error


@contextlib.contextmanager
def reached(place: Home, cluster: Cluster, name: str) -> Iterator[Way]:
    """Connect to the sshd of a node, and close the connection at the end.

    Args:
        place: State directory of the cluster.
        cluster: Deployed cluster.
        name: Name of the node.

    Yields:
        The connection.

    Raises:
        Unreachable: The connection fails.
    """
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
