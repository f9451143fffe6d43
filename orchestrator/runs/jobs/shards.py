"""Start runs that make shards of a data set, and that copy shards to every node."""

from orchestrator import progress, recipes
from orchestrator.cluster import SHARED, Cluster
from orchestrator.config import Config
from orchestrator.errors import ConfigError, command
from orchestrator.runs import control, datasets, shared_data
from orchestrator.runs.datasets import FoundDataset
from orchestrator.runs.jobs import trainer
from orchestrator.runs.run_record import Run
from orchestrator.schema import PrepareConfig, StageConfig
from orchestrator.ssh import Session
from orchestrator.state import StateDir, cluster_lock

DATASETS = ("imagenet",)  # those that are larger than memory


def prepare(state_dir: StateDir, cluster: Cluster, digest: str, config: Config, skip_unreadable: bool) -> Run:
    """Start a run that makes TFRecord shards of a data set, each rank a part.

    Args:
        state_dir: State directory of the cluster.
        cluster: Deployed cluster.
        digest: Digest of the trainer image that the nodes must have.
        config: Configuration with the data set in train.
        skip_unreadable: Leave out samples that cannot be read, instead of failing.

    Returns:
        The run, started.

    Raises:
        ConfigError: Shards cannot be made of the data set, or do not fit on the shared storage.
        NodesFailed: A node is not healthy, or the head does not answer.
        StateError: Another run is active or starting.
    """
    data_files = _find_dataset(config, None if skip_unreadable else "--skip-unreadable leaves out what cannot be read")
    if data_files.note:
        progress.note(f"{data_files.dataset}: {data_files.note}")
    nodes = control.check_nodes(state_dir, cluster, digest, config.launch)
    run = control.plan(cluster, config.launch, f"prepare-{data_files.dataset}", nodes)
    with cluster_lock.starting(state_dir), control.head_session(state_dir, cluster) as head:
        shared_data.require_space_for_records(head, data_files, cluster.name)
        source = shared_data.upload(head, data_files, cluster.name)
        resolved = PrepareConfig(
            source=source,
            target=data_files.records,
            shards=data_files.shard_counts(run.np),
            skip_unreadable=skip_unreadable,
            threads=run.threads,
        )
        return trainer.start(state_dir, cluster, head, run, "data.prepare", resolved)


def stage(state_dir: StateDir, cluster: Cluster, digest: str, config: Config) -> Run:
    """Start a run that copies prepared shards to every node's own disk.

    Args:
        state_dir: State directory of the cluster.
        cluster: Deployed cluster.
        digest: Digest of the trainer image that the nodes must have.
        config: Configuration; without train.data, all prepared data sets, or those called train.dataset, are copied.

    Returns:
        The run, started.

    Raises:
        ConfigError: No shards are prepared, or none are made of this data set.
        NodesFailed: A node is not healthy, or the head does not answer.
        StateError: Another run is active or starting.
    """
    if config.train.dataset:
        _require_shards_of(config.train.dataset)
    data_files = _find_dataset(config) if config.train.data else None
    one_slot_cluster, options = cluster.with_one_slot(), config.launch.model_copy(update={"np": None})
    nodes = control.check_nodes(state_dir, one_slot_cluster, digest, options)
    run = control.plan(one_slot_cluster, options, f"stage-{config.train.dataset or 'data'}", nodes)
    with cluster_lock.starting(state_dir), control.head_session(state_dir, cluster) as head:
        sources = _prepared(head, config, data_files)
        head_apart = cluster.storage == "nfs" and cluster.head in cluster.rank_nodes
        resolved = StageConfig(sources=sources, head_apart=head_apart, threads=run.threads)
        return trainer.start(state_dir, one_slot_cluster, head, run, "data.stage", resolved)


def _prepared(head: Session, config: Config, data_files: FoundDataset | None) -> list[str]:
    """Return the directories of the shards to copy. Raises ConfigError if there are none."""
    if data_files:
        sources = [source for source in [shared_data.prepared(head, data_files)] if source]
    else:
        sources = shared_data.all_prepared(head, config.train.dataset)
    if not sources:
        name, place = (data_files.directory, "") if data_files else (config.train.dataset, f" in {SHARED}/data")
        what = f"{name} is not prepared" if name else "nothing is prepared"
        raise ConfigError([f"train.data: {what}{place}"], f"{command('data prepare', config.name)} makes shards of it")
    return sources


def _require_shards_of(dataset: str | None) -> str:
    """Return the name of a data set that shards are made of. Raises ConfigError for another, and for None."""
    if dataset in DATASETS:
        return dataset
    problem = f"{dataset!r} is unknown" if dataset else "missing"
    wrong = f"{dataset}: is read into memory whole" if dataset in recipes.datasets() else problem
    raise ConfigError([f"train.dataset: {wrong}: shards are made of {', '.join(DATASETS)}"])


def _find_dataset(config: Config, remedy: str | None = None) -> FoundDataset:
    """Find the data set in train.data. Raises ConfigError if it is not one that shards are made of.

    Unreadable images are an error with the hint ``remedy``; without it they are skipped.
    """
    dataset = _require_shards_of(config.train.dataset)
    with progress.step(f"Checking data set {dataset}") as step:
        return datasets.require(dataset, config.train.data, step.detail, remedy)
