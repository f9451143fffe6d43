"""Sessions on the head."""

from collections.abc import Iterator
from contextlib import contextmanager

from orchestrator import ssh
from orchestrator.cluster import Cluster
from orchestrator.errors import NodesFailed, command
from orchestrator.ssh import Session, Unreachable
from orchestrator.state import StateDir


@contextmanager
def head_session(state_dir: StateDir, cluster: Cluster) -> Iterator[Session]:
    """Open a session on the head. Raises NodesFailed if the head does not answer, or stops answering."""
    try:
        with ssh.connect(state_dir, cluster, cluster.head) as session:
            yield session
    except Unreachable as error:
        status, deploy = command("status", cluster.name), command("deploy", cluster.name)
        hint = f"{status} shows every node, {deploy} repairs them"
        raise NodesFailed("the head does not answer", {cluster.head: str(error)}, hint) from error
