"""Start training runs, or repeat them. The modules of this package start the other kinds of runs."""

from collections.abc import Callable

from orchestrator import progress, recipes
from orchestrator.cluster import Cluster
from orchestrator.config import Config
from orchestrator.recipes import gradient_exchange
from orchestrator.runs import checksums, control, datasets, engines, predict_runs, shared_data
from orchestrator.runs.datasets import FoundDataset
from orchestrator.runs.jobs import trainer
from orchestrator.runs.run_record import Run
from orchestrator.runs.user_variables import UserEnvironment
from orchestrator.schema import TrainConfig
from orchestrator.state import StateDir, cluster_lock

SKIP = "--on-bad-sample skip continues without the samples that cannot be read"


def train(
    state_dir: StateDir,
    cluster: Cluster,
    digest: str,
    config: Config,
    planned: Callable[[Run], None] | None = None,
    environment: UserEnvironment | None = None,
    queue: str | None = None,
) -> Run:
    """Start a training run, or prepare it for a queue; all input is checked before anything runs.

    Args:
        state_dir: State directory of the cluster.
        cluster: Deployed cluster.
        digest: Digest of the trainer image that the nodes must have.
        config: Configuration with the sections train and launch.
        planned: Called with the run before it starts, to write its name down.
        environment: Variables for the ranks.
        queue: Id of the queue that will start the run; None to start it now.

    Returns:
        The run, started or prepared.

    Raises:
        ConfigError: A setting is invalid, or does not fit the data set or the nodes.
        PreflightError: The data set cannot be downloaded.
        NodesFailed: A node is not healthy, or the head does not answer.
        StateError: Another run is active or starting.
    """
    _, dataset = recipes.require(config.train)
    engines.require(config.train)
    options = gradient_exchange.launch_options(config.train, engines.launch_options(config.train, config.launch))
    trainer.require_exchange(gradient_exchange.settings(config.train), cluster, options)
    remedy = None if config.train.on_bad_sample == "skip" else SKIP
    with progress.step(f"Checking data set {dataset}") as step:
        data_files = datasets.find(dataset, config.train.data, step.detail, remedy)
    if data_files and data_files.note:
        progress.note(f"{dataset}: {data_files.note}")
    if data_files:
        recipes.require_classes(config.train, data_files.classes)
    nodes = control.check_nodes(state_dir, cluster, digest, options)
    ranks = options.np or cluster.slots
    images = recipes.training_images(dataset, data_files.train if data_files else None, ranks)
    batch = _batch(config, cluster, ranks, nodes.memory, images)
    run = trainer.plan(state_dir, cluster, digest, options, f"{config.train.model}-{dataset}", nodes)
    run = run.model_copy(update={"queue": queue})
    if planned:
        planned(run)

    def resolved(remote: str | None) -> TrainConfig:
        settings = recipes.resolve(config.train, run.id, remote, images, run.np, run.threads, batch)
        progress.note(recipes.endless_warm_up(settings))
        return engines.resolved(config.train, settings)

    run, settings = _start(state_dir, cluster, run, config, data_files, resolved, environment)
    if config.train.engine == "ours":
        with progress.log_errors(f"run {run.id} has started, its prediction is not kept"):
            predict_runs.save(state_dir, cluster, run, settings)
    return run


def repeat(
    state_dir: StateDir,
    cluster: Cluster,
    digest: str,
    config: Config,
    settings: TrainConfig,
    environment: UserEnvironment | None = None,
) -> Run:
    """Start a training run with exactly ``settings``, but for its name, its threads and where its data is.

    Args:
        state_dir: State directory of the cluster.
        cluster: Deployed cluster.
        digest: Digest of the trainer image that the nodes must have.
        config: Configuration with the section launch, and engine and directory of the data in train.
        settings: Settings of the run.
        environment: Variables for the ranks.

    Returns:
        The run, started.

    Raises:
        ConfigError: The data set is not here, or the settings do not fit the cluster.
        NodesFailed: A node is not healthy, or the head does not answer.
        StateError: Another run is active or starting.
    """
    options = engines.launch_options(config.train, config.launch)
    trainer.require_exchange(settings.model_dump(), cluster, options)
    with progress.step(f"Checking data set {settings.dataset}") as step:
        data_files = datasets.find(settings.dataset, config.train.data, step.detail)
    nodes = control.check_nodes(state_dir, cluster, digest, options)
    run = trainer.plan(state_dir, cluster, digest, options, f"{settings.model}-{settings.dataset}", nodes)

    def resolved(remote: str | None) -> TrainConfig:
        return settings.model_copy(update={"run": run.id, "data": remote, "threads": run.threads})

    return _start(state_dir, cluster, run, config, data_files, resolved, environment)[0]


def _start(
    state_dir: StateDir,
    cluster: Cluster,
    run: Run,
    config: Config,
    data_files: FoundDataset | None,
    resolved: Callable[[str | None], TrainConfig],
    environment: UserEnvironment | None = None,
) -> tuple[Run, TrainConfig]:
    """Place the data set, and start the engine with the configuration that is ``resolved`` for its directory."""
    with cluster_lock.starting(state_dir), control.head_session(state_dir, cluster) as head:
        settings = resolved(shared_data.provide(head, data_files, cluster.name) if data_files else None)
        if data_files:  # before the start: an error must not hide a run that trains
            checksums.keep(state_dir, run, data_files)
        run = trainer.start(state_dir, cluster, head, run, engines.program(config.train), settings, environment)
    return run, settings


def _batch(config: Config, cluster: Cluster, ranks: int, memory: int, images: int) -> int:
    batch = recipes.batch_size(config.train, images, ranks, None if cluster.on_gpus else memory)
    configured = config.train.batch_size or int(recipes.recipe(config.train)["batch_size"])
    if batch < configured:
        room = f"{memory / 2**30:.1f} GiB of memory and {images // ranks} images"
        progress.note(f"{batch} images per rank and step instead of {configured}: a rank has {room}")
    return batch
