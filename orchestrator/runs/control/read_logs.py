"""Logs of runs: followed to the end, or read as they are now."""

import sys
import time
from collections.abc import Iterator

from orchestrator.cluster import Cluster
from orchestrator.errors import NodesFailed
from orchestrator.runs.control.head_sessions import head_session
from orchestrator.runs.control.reconnect import Outage
from orchestrator.runs.control.run_states import ACTIVE, RunState, get_state
from orchestrator.runs.run_record import Run
from orchestrator.ssh import Session
from orchestrator.state import StateDir

POLL_SECONDS = 1.0


def watch(state_dir: StateDir, cluster: Cluster, run: Run) -> Iterator[bytes]:
    """Follow the run's log from its first byte until the run ends, and reconnect if the connection breaks.

    Args:
        state_dir: State directory of the cluster.
        cluster: Deployed cluster.
        run: Run that has started, or that its queue will start.

    Yields:
        Pieces of the log.

    Raises:
        NodesFailed: The head did not answer for two minutes.
    """
    offset, outage = 0, Outage()
    while True:
        try:
            with head_session(state_dir, cluster) as head:
                while True:
                    # The log of a queue's run is read as it is: after the run has ended, once more.
                    over = run.queue is not None and _is_over(state_dir, head, run)
                    pieces = _follow(head, run, offset)
                    outage.end()
                    for piece in pieces:
                        offset += len(piece)
                        yield piece
                    if over or (run.queue is None and _is_over(state_dir, head, run)):
                        return
                    time.sleep(POLL_SECONDS)
        except NodesFailed as error:
            outage.wait(error)


def await_end(state_dir: StateDir, cluster: Cluster, run: Run) -> RunState:
    """Wait until a run has ended, and reconnect if the connection breaks.

    Args:
        state_dir: State directory of the cluster.
        cluster: Deployed cluster.
        run: Run in any state.

    Returns:
        How it ended.

    Raises:
        NodesFailed: The head did not answer for two minutes.
    """
    outage = Outage()
    while True:
        try:
            with head_session(state_dir, cluster) as head:
                while (run_state := get_state(state_dir, head, run)).state in ACTIVE:
                    outage.end()
                    time.sleep(POLL_SECONDS)
                return run_state
        except NodesFailed as error:
            outage.wait(error)


def _is_over(state_dir: StateDir, head: Session, run: Run) -> bool:
    return get_state(state_dir, head, run).state not in ACTIVE


def _follow(head: Session, run: Run, offset: int) -> Iterator[bytes]:
    show = ["sudo", "systemctl", "show", "--property", "MainPID", "--value", run.unit]
    pid = head.must("find the run", show).strip()
    live = [] if run.queue or pid in ("", "0") else ["--follow=name", "--retry", f"--pid={pid}", "--sleep-interval=0.2"]
    return head.follow(["tail", "--quiet", f"--bytes=+{offset + 1}", *live, f"{run.directory}/log"])


def log(head: Session, run: Run) -> Iterator[bytes]:
    """Read the run's log as it is now. Raises CommandFailed if it is missing."""
    return head.read(f"reading the log of {run.id}", ["cat", f"{run.directory}/log"], sys.maxsize)
