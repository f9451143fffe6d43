"""Cluster check: start every rank, verify an allreduce, and time messages and a step."""

from orchestrator.cluster import PYTHON, Cluster, require_a_gpu_each
from orchestrator.config import Launch
from orchestrator.runs import control
from orchestrator.runs.run_record import Run
from orchestrator.state import StateDir, cluster_lock

KIND, MEASURED = "check", "check.json"


def start(state_dir: StateDir, cluster: Cluster, digest: str, options: Launch, most_work: float = 1.0) -> Run:
    """Start the program that checks every rank and measures messages and a step.

    Args:
        state_dir: State directory of the cluster.
        cluster: Deployed cluster.
        digest: Digest of the trainer image that the nodes must have.
        options: Launch options.
        most_work: Largest fraction of a step (0 to 1) to compute and send.

    Returns:
        The run, started.

    Raises:
        NodesFailed: A node is not healthy, or the head does not answer.
        StateError: Another run is active or starting.
        ConfigError: The options do not fit the nodes.
    """
    require_a_gpu_each(cluster)
    run = control.plan(cluster, options, KIND, control.check_nodes(state_dir, cluster, digest, options))
    run = run.model_copy(update={"command": [PYTHON, "-m", "orchestrator.trainer.check", str(most_work)]})
    with cluster_lock.starting(state_dir), control.head_session(state_dir, cluster) as head:
        control.start(state_dir, cluster, head, run, {}, {})
    return run
