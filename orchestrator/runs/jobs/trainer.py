"""Plan a run with its launcher, and start a program of the trainer as that run."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from orchestrator.cluster import PYTHON, Cluster, hosts, require_a_gpu_each
from orchestrator.config import Launch
from orchestrator.recipes import gradient_exchange
from orchestrator.runs import control, engines, gloo_or_mpi
from orchestrator.runs.control import NodeResources
from orchestrator.runs.run_record import Run
from orchestrator.runs.user_variables import UserEnvironment
from orchestrator.ssh import Session
from orchestrator.state import StateDir


def require_exchange(exchange: Mapping[str, Any], cluster: Cluster, launch: Launch) -> None:
    """Check that the cluster can exchange gradients as the settings ``exchange`` ask for. Raises ConfigError."""
    require_a_gpu_each(cluster)
    nodes = len(hosts(cluster, launch.np))
    gradient_exchange.require(
        exchange, launch.controller, launch.np or cluster.slots, nodes if cluster.on_gpus else None
    )


def plan(state_dir: StateDir, cluster: Cluster, digest: str, options: Launch, kind: str, nodes: NodeResources) -> Run:
    """Describe a run that can start now, with the launcher of ``options``.

    Args:
        state_dir: State directory of the cluster.
        cluster: Deployed cluster.
        digest: Digest of the trainer image that the nodes must have.
        options: Launch options; for Horovod, the controller "auto" becomes the faster one.
        kind: First part of the run's id.
        nodes: Resources of the nodes with ranks.

    Returns:
        The run, without a command.
    """
    if options.launcher == "horovod":
        options = gloo_or_mpi.choose(state_dir, cluster, digest, options)
    return control.plan(cluster, options, kind, nodes).model_copy(update=engines.of_run(options))


def start(
    state_dir: StateDir,
    cluster: Cluster,
    head: Session,
    run: Run,
    program: str,
    resolved: BaseModel,
    environment: UserEnvironment | None = None,
) -> Run:
    """Start a program of the trainer.

    Args:
        state_dir: State directory of the cluster.
        cluster: Deployed cluster.
        head: Session on the head.
        run: The run, as planned.
        program: Module in orchestrator.trainer.
        resolved: Its configuration.
        environment: Variables for the ranks.

    Returns:
        The run, started.

    Raises:
        StateError: Another run started first.
        CommandFailed: The head cannot start the program.
    """
    run = run.model_copy(update={"command": [PYTHON, "-m", f"orchestrator.trainer.{program}", run.directory]})
    settings = {"config.json": resolved.model_dump_json(indent=2) + "\n"}
    control.start(state_dir, cluster, head, run, {}, settings, environment.values if environment else None)
    return run
