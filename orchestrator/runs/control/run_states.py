"""States of runs, as the head and the fetched files have them."""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from orchestrator import exit_codes, progress, ssh
from orchestrator.cluster import Cluster
from orchestrator.errors import ContractError, NodesFailed
from orchestrator.runs import log_display, store
from orchestrator.runs.control.head_sessions import head_session
from orchestrator.runs.control.systemd_units import active
from orchestrator.runs.run_record import Run
from orchestrator.schema import Failure, RunStatus
from orchestrator.ssh import Session
from orchestrator.state import StateDir

ACTIVE = ("running", "queued")
ADDRESS = re.compile(r"\d+(?:\.\d+){3}")


@dataclass(frozen=True)
class RunState:
    """A run and its current state.

    The state is "running", "queued" (its queue has not started it yet), "finished", "failed", "stopped", "lost" (the
    head went down, or the supervisor was killed) or "unknown" (the head does not answer, or its status is damaged).
    """

    run: Run
    state: str
    status: RunStatus | None


def get_state(state_dir: StateDir, head: Session, run: Run, units: Sequence[str] | None = None) -> RunState:
    """Get the state of ``run``; ask the head only if the run is not known to have ended.

    Args:
        state_dir: State directory of the cluster.
        head: Session on the head.
        run: Run in any state.
        units: What :func:`active` returned; default: ask now.

    Returns:
        The run with its state.

    Raises:
        ContractError: The head's status.json is not valid.
    """
    status = store.status(state_dir, run)
    if status:
        return RunState(run, status.state, status)
    running = (run.queue or run.id) in (active(head) if units is None else units)
    answer = head.run(["cat", f"{run.directory}/status.json"])  # asked after the unit, which writes it before it ends
    if answer.exit_code == 0:
        reported = ssh.parsed(RunStatus, answer.output, head, f"{run.directory}/status.json")
        return RunState(run, reported.state, reported)
    if running and run.queue and head.run(["test", "-e", f"{run.directory}/{store.TURN}"]).exit_code:
        return RunState(run, "queued", None)
    return RunState(run, "running" if running else "lost", None)


def overview(state_dir: StateDir, cluster: Cluster | None, chosen: Sequence[Run] | None = None) -> list[RunState]:
    """Get the state of runs; ask the head only about runs that are not known to have ended.

    Args:
        state_dir: State directory of the cluster.
        cluster: Deployed cluster; without it, runs without a fetched status are "lost".
        chosen: Runs to report; default: all recorded runs.

    Returns:
        The runs with their states, in the same order; "unknown" if the head does not answer, or has a damaged status.
    """
    recorded = {
        run.id: (run, store.status(state_dir, run))
        for run in (store.list_runs(state_dir) if chosen is None else chosen)
    }
    otherwise = "unknown" if cluster else "lost"
    run_states = {
        name: RunState(run, status.state if status else otherwise, status) for name, (run, status) in recorded.items()
    }
    open_runs = [s.run for s in run_states.values() if s.status is None]
    if cluster and open_runs:
        with suppress(NodesFailed), head_session(state_dir, cluster) as head:
            units = active(head)
            run_states |= {run.id: _state_or_unknown(state_dir, head, run, units) for run in open_runs}
    return list(run_states.values())


def _state_or_unknown(state_dir: StateDir, head: Session, run: Run, units: Sequence[str]) -> RunState:
    """Get the state of a run; a damaged status is noted, so that it hides no other run."""
    try:
        return get_state(state_dir, head, run, units)
    except ContractError as error:
        progress.note(error.message)
        return RunState(run, "unknown", None)


def cause(run_state: RunState, cluster: Cluster) -> str:
    """Describe why a run did not finish: "failed: ..." with the cause, or "was stopped"."""
    failure = run_state.status.failure if run_state.status else None
    return f"failed: {describe(failure, cluster)}" if failure else f"was {run_state.state}"


def describe(failure: Failure, cluster: Cluster) -> str:
    """Describe the cause of a failed run: the rank, its node and its last lines."""
    node = cluster.named(failure.host)
    tail = "".join(f"\n    {line}" for line in log_display.without_chatter(failure.lines))
    if failure.reason == "host":
        nodes = [cluster.named(host) for host in failure.hosts]
        return f"{'nodes' if len(nodes) > 1 else 'node'} {', '.join(nodes) or node} stopped answering"
    if failure.reason == "start":
        return f"its start took too long: {ADDRESS.sub(lambda match: cluster.named(match[0]), ' '.join(failure.lines))}"
    if failure.reason == "launcher":
        return f"the launcher on {node} failed before any rank did:{tail}"
    killed = " (killed: out of memory?)" if failure.exit_code == exit_codes.KILLED else ""
    how = "raised an error" if failure.exit_code is None else f"ended with exit code {failure.exit_code}{killed}"
    return f"rank {failure.rank} on {node} {how}:{tail}"
