"""Sessions on the head, and pauses while it does not answer."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from orchestrator import progress, ssh
from orchestrator.cluster import Cluster
from orchestrator.errors import NodesFailed, command
from orchestrator.ssh import Session, Unreachable
from orchestrator.state import StateDir

PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, *(30.0,) * 3)  # seconds, together two minutes


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


class Outage:
    """Attempts in a row to reach a head that does not answer, with growing pauses; runs continue meanwhile."""

    def __init__(self) -> None:
        self._failures = 0

    def end(self) -> None:
        """Note that the head has answered."""
        self._failures = 0

    def wait(self, error: NodesFailed) -> None:
        """Wait before the next attempt, and announce the first. Raises ``error`` after two minutes of them."""
        if self._failures == len(PAUSES):
            raise error
        if not self._failures:
            progress.note(f"{error}\nreconnecting for {sum(PAUSES) / 60:.0f} minutes; runs continue meanwhile")
        time.sleep(PAUSES[self._failures])
        self._failures += 1
