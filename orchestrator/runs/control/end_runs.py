"""End runs, and remove what they left on the nodes."""

from contextlib import suppress

from orchestrator import grace_periods, ssh
from orchestrator.cluster import PYTHON, Cluster
from orchestrator.errors import CommandFailed, NodesFailed, command
from orchestrator.runs import store, user_variables
from orchestrator.runs.control.head_sessions import head_session
from orchestrator.runs.run_record import Run
from orchestrator.ssh import Session
from orchestrator.state import StateDir


def stop(head: Session, run: Run, wait: bool = True) -> None:
    """Stop the run's unit, which ends its processes on every node; wait for that by default."""
    argv = ["sudo", "systemctl", "stop", *([] if wait else ["--no-block"]), run.unit]
    answer = head.run(argv, timeout=grace_periods.STOP_COMMAND)
    if answer.exit_code and "not loaded" not in answer.errors:
        raise CommandFailed("stop the run", argv, answer.exit_code, [answer.errors.strip()])


def sweep(state_dir: StateDir, cluster: Cluster, run: Run) -> None:
    """End the processes that a run left on the nodes.

    Args:
        state_dir: State directory of the cluster.
        cluster: Deployed cluster.
        run: Run whose unit has ended.

    Raises:
        NodesFailed: A node does not answer, or cannot search for processes.
    """

    def end_leftovers(name: str) -> str:
        with ssh.connect(state_dir, cluster, name) as session:
            argv = [PYTHON, "-m", "orchestrator.trainer.supervision.leftover_processes", run.id]
            answer = session.run(argv)
        return f"exit code {answer.exit_code}: {_last_line(answer.errors)}" if answer.exit_code else ""

    problems, reasons = ssh.on_every_node(cluster, end_leftovers)
    reasons |= {name: problem for name, problem in problems.items() if problem}
    if reasons:
        again = command(f"stop {run.id}", cluster.name)
        raise NodesFailed("processes of the run may be left on", reasons, f"{again} once these nodes work")


def _last_line(errors: str) -> str:
    return next(reversed(errors.strip().splitlines()), "no message")


def remove_environments(state_dir: StateDir, cluster: Cluster) -> None:
    """Remove the variables that users set for runs whose head died. A head that does not answer is no error."""
    open_runs = [run for run in store.list_runs(state_dir) if not store.is_collected(state_dir, run)]
    if open_runs:
        with suppress(NodesFailed), head_session(state_dir, cluster) as head:
            user_variables.remove(head, open_runs)
