"""Logs of runs: followed to the end, or read as they are now."""

import time
from collections.abc import Iterator

from orchestrator.cluster import Cluster
from orchestrator.errors import NodesFailed
from orchestrator.runs.control.head import head_session
from orchestrator.runs.control.states import get_state
from orchestrator.runs.run_record import Run
from orchestrator.ssh import Session
from orchestrator.state import StateDir

RECONNECTIONS, RECONNECT_SECONDS = 4, 0.5


def watch(state_dir: StateDir, cluster: Cluster, run: Run) -> Iterator[bytes]:
    """Follow the run's log from its first byte until the run ends, and reconnect if the connection breaks.

    Args:
        state_dir: State directory of the cluster.
        cluster: Deployed cluster.
        run: Started run.

    Yields:
        Pieces of the log.

    Raises:
        NodesFailed: Several connections in a row failed.
    """
    offset, failures = 0, 0
    while True:
        try:
            with head_session(state_dir, cluster) as head:
                for piece in _follow(head, run, offset):
                    offset, failures = offset + len(piece), 0
                    yield piece
                if get_state(state_dir, head, run).state != "running":
                    return
        except NodesFailed:
            failures += 1
            if failures == RECONNECTIONS:
                raise
        time.sleep(RECONNECT_SECONDS)


def _follow(head: Session, run: Run, offset: int) -> Iterator[bytes]:
    show = ["sudo", "systemctl", "show", "--property", "MainPID", "--value", run.unit]
    pid = head.must("find the run", show).strip()
    live = [] if run.queue or pid in ("", "0") else ["--follow=name", "--retry", f"--pid={pid}", "--sleep-interval=0.2"]
    return head.follow(["tail", "--quiet", f"--bytes=+{offset + 1}", *live, f"{run.directory}/log"])


def log(head: Session, run: Run) -> Iterator[bytes]:
    """Read the run's log as it is now."""
    return head.follow(["cat", f"{run.directory}/log"])
