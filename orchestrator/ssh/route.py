"""Open a socket to a node's sshd: directly, through the head, or through the user's jump host."""

import contextlib
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from orchestrator.cluster import Cluster
from orchestrator.process import background
from orchestrator.ssh.channels import CONNECT_SECONDS, Unreachable, faults
from orchestrator.ssh.openssh import tunnel
from orchestrator.state import StateDir

INSTALL = {"ssh": "`sudo apt-get install openssh-client`", "gcloud": "https://cloud.google.com/sdk/docs/install"}
FIRST_SECONDS = 30.0  # for sshd's first answer: an emulated or busy machine computes keys for many seconds


@dataclass(frozen=True)
class Route:
    """A connection to a node's sshd.

    ``seconds`` limits its first answers; ``error_output`` returns the error output of a program in between.
    """

    connection: socket.socket
    seconds: float
    error_output: Callable[[], str]

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Raise Unreachable, with the reason, if an operation on the connection fails."""
        try:
            yield
        except faults() as error:
            raise Unreachable(self.error_output() or str(error) or type(error).__name__) from error


@contextlib.contextmanager
def open_route(state_dir: StateDir, cluster: Cluster, name: str) -> Iterator[Route]:
    """Connect to the sshd of a node, and close the connection at the end.

    Args:
        state_dir: State directory of the cluster.
        cluster: Deployed cluster.
        name: Name of the node.

    Yields:
        The connection.

    Raises:
        Unreachable: The connection fails.
    """
    way = _route(state_dir, cluster, name)
    with way.connection:
        way.connection.settimeout(way.seconds)
        yield way


def _route(state_dir: StateDir, cluster: Cluster, name: str) -> Route:
    node, through = cluster.nodes[name], tunnel(cluster, name, state_dir.key, state_dir.known_hosts)
    if through:
        return _tunnelled(through)
    try:
        connection = socket.create_connection((node.address, node.port), CONNECT_SECONDS)
    except OSError as error:
        raise Unreachable(str(error) or type(error).__name__) from error
    return Route(connection, FIRST_SECONDS, lambda: "")


def _tunnelled(through: Sequence[str]) -> Route:
    try:
        connection, error_output = background.open_socket(through)
    except OSError as error:
        program = through[0]
        raise Unreachable(f"{program} cannot be started: {error.strerror}: install it: {INSTALL[program]}") from error
    return Route(connection, 2 * FIRST_SECONDS, error_output)  # two logins
