"""Start training runs that continue earlier ones."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orchestrator import progress
from orchestrator.cluster import Cluster
from orchestrator.config import Config
from orchestrator.runs import checksums, control, datasets, resumed_run_config, shared_data
from orchestrator.runs.jobs import trainer
from orchestrator.runs.run_record import Run
from orchestrator.runs.user_variables import UserEnvironment
from orchestrator.schema import TrainConfig
from orchestrator.ssh import Session
from orchestrator.state import StateDir, cluster_lock


def resume(
    state_dir: StateDir,
    cluster: Cluster,
    digest: str,
    config: Config,
    old: Run,
    limits: Mapping[str, Any],
    environment: UserEnvironment | None = None,
) -> Run:
    """Start a run that continues the training run ``old`` with its settings.

    Args:
        state_dir: State directory of the cluster.
        cluster: Deployed cluster.
        digest: Digest of the trainer image that the nodes must have.
        config: Used only for launch options, and for the local data set if the cluster no longer has it.
        old: Training run to continue.
        limits: New ``epochs``, ``steps``, ``until``, ``max_time`` (seconds), ``save_model``, ``on_bad_sample`` or
            ``on_nan``, as in TrainConfig.
        environment: Variables for the ranks; those of ``old`` are not kept.

    Returns:
        The run, started.

    Raises:
        StateError: ``old`` is active or has no checkpoint, its data set cannot be placed, or another run is active.
        ConfigError: Nothing is left to train, or a setting does not fit the nodes.
        NodesFailed: A node is not healthy, or the head does not answer.
    """
    np = resumed_run_config.ranks(old, config.launch.np, cluster)
    launch = config.launch.model_copy(update={"np": np})
    with progress.step(f"Looking for a checkpoint of {old.id}"), control.head_session(state_dir, cluster) as head:
        settings, index = resumed_run_config.read(state_dir, head, old)
    resolved = resumed_run_config.resumed_config(settings, index, old, np, limits, cluster.name)
    if resolved.max_time and "max_time" not in limits:
        progress.note(f"the time limit of {old.id} applies again: {resolved.max_time:g} s (--max-time names another)")
    trainer.require_exchange(resolved.model_dump(), cluster, launch)
    run = control.plan(cluster, launch, old.kind, control.check_nodes(state_dir, cluster, digest, launch))
    with cluster_lock.starting(state_dir), control.head_session(state_dir, cluster) as head:
        _upload_again(head, settings, config.train.data, old, cluster.name)
        resolved = resolved.model_copy(update={"run": run.id, "threads": run.threads})
        checksums.keep_same(state_dir, old, run)
        return trainer.start(state_dir, cluster, head, run, "train", resolved, environment)


def _upload_again(head: Session, settings: TrainConfig, data: Path | None, old: Run, cluster: str) -> None:
    """Ensure that the cluster has the data set that ``old`` trained on. Raises StateError if that is not possible."""
    if settings.data is None or head.run(["test", "-d", settings.data]).exit_code == 0:
        return
    with progress.step(f"Checking data set {settings.dataset}") as step:
        data_files = datasets.require(settings.dataset, data, step.detail)
    resumed_run_config.require_same(old, settings, data_files, cluster)
    shared_data.upload(head, data_files, cluster)
