"""Kinds of runs: the trainer, data preparation, data staging, and user scripts."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from orchestrator import lock, progress, recipes
from orchestrator.cluster import PYTHON, SHARED, Cluster, hosts, require_a_gpu_each
from orchestrator.config import Config, Launch
from orchestrator.errors import ConfigError, command
from orchestrator.runs import (
    checksums,
    control,
    controller,
    datasets,
    engines,
    overlays,
    packages,
    predictions,
    source_code,
)
from orchestrator.runs import resume as runs_resume
from orchestrator.runs import script as runs_script
from orchestrator.runs.datasets import FoundDataset
from orchestrator.runs.launch import Run
from orchestrator.runs.launchers import choice
from orchestrator.runs.requirements import Requirements
from orchestrator.runs.script import Source
from orchestrator.runs.user_environment import UserEnvironment
from orchestrator.schema import PrepareConfig, StageConfig, TrainConfig
from orchestrator.ssh import Session
from orchestrator.state import StateDir

SOURCE = "src"
SHARDED = ("imagenet",)  # data sets that are larger than memory


def train(
    state_dir: StateDir,
    cluster: Cluster,
    digest: str,
    config: Config,
    planned: Callable[[Run], None] | None = None,
    environment: UserEnvironment | None = None,
) -> Run:
    """Start a training run; all input is checked before anything runs.

    Args:
        state_dir: State directory of the cluster.
        cluster: Deployed cluster.
        digest: Digest of the trainer image that the nodes must have.
        config: Configuration with the sections train and launch.
        planned: Called with the run before it starts, to write its name down.
        environment: Variables for the ranks.

    Returns:
        The run, started.

    Raises:
        ConfigError: A setting is invalid, or does not fit the data set or the nodes.
        PreflightError: The data set cannot be downloaded.
        NodesFailed: A node is not healthy, or the head does not answer.
        StateError: Another run is active or starting.
    """
    _, dataset = recipes.require(config.train)
    engines.require(config.train)
    options = recipes.communication.launch_options(config.train, engines.launch_options(config.train, config.launch))
    _require_exchange(recipes.communication.settings(config.train), cluster, options)
    with progress.step(f"Checking data set {dataset}") as step:
        remedy = (
            None if config.train.on_bad_sample == "skip" else "--on-bad-sample skip goes on without what cannot be read"
        )
        data_files = datasets.find(dataset, config.train.data, step.detail, remedy)
    if data_files and data_files.note:
        progress.note(f"{dataset}: {data_files.note}")
    nodes = control.check_nodes(state_dir, cluster, digest, options)
    ranks = options.np or cluster.slots
    images = recipes.training_images(dataset, data_files.train if data_files else None, ranks)
    batch = _batch(config, cluster, ranks, nodes.memory, images)
    if options.launcher == "horovod":
        options = controller.choose(state_dir, cluster, digest, options)
    run = control.plan(cluster, options, f"{config.train.model}-{dataset}", nodes)
    run = run.model_copy(update=engines.of_run(options))
    if planned:
        planned(run)
    with lock.starting(state_dir), control.head_session(state_dir, cluster) as head:
        remote = (datasets.prepared(head, data_files) or _uploaded(head, data_files)) if data_files else None
        resolved = recipes.resolve(config.train, run.id, remote, images, run.np, run.threads, batch)
        resolved = engines.resolved(config.train, resolved)
        run = _start_trainer(state_dir, cluster, head, run, engines.program(config.train), resolved, environment)
    if config.train.engine == "ours":
        predictions.save_of_run(state_dir, cluster, run, resolved)
    if data_files:
        checksums.keep(state_dir, run, data_files)
    return run


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
        limits: New ``epochs``, ``steps``, ``until`` or ``max_time`` (seconds), as in TrainConfig; may be empty.
        environment: Variables for the ranks; those of ``old`` are not kept.

    Returns:
        The run, started.

    Raises:
        StateError: ``old`` is active or has no checkpoint, its data set cannot be placed, or another run is active.
        ConfigError: Nothing is left to train, or a setting does not fit the nodes.
        NodesFailed: A node is not healthy, or the head does not answer.
    """
    np = runs_resume.ranks(old, config.launch.np, cluster)
    launch = config.launch.model_copy(update={"np": np})
    with progress.step(f"Looking for a checkpoint of {old.id}"), control.head_session(state_dir, cluster) as head:
        settings, index = runs_resume.read(state_dir, head, old)
    resolved = runs_resume.resumed_config(settings, index, old, np, limits, cluster.name)
    _require_exchange(resolved.model_dump(), cluster, launch)
    run = control.plan(cluster, launch, old.kind, control.check_nodes(state_dir, cluster, digest, launch))
    with lock.starting(state_dir), control.head_session(state_dir, cluster) as head:
        _upload_again(head, settings, config.train.data, old, cluster.name)
        resolved = resolved.model_copy(update={"run": run.id})
        run = _start_trainer(state_dir, cluster, head, run, "train", resolved, environment)
    checksums.keep_same(state_dir, old, run)
    return run


def repeat(state_dir: StateDir, cluster: Cluster, digest: str, config: Config, settings: TrainConfig) -> Run:
    """Start a training run with exactly ``settings``, but for its name, its threads and where its data is.

    Args:
        state_dir: State directory of the cluster.
        cluster: Deployed cluster.
        digest: Digest of the trainer image that the nodes must have.
        config: Configuration with the section launch, and engine and directory of the data in train.
        settings: Settings of the run.

    Returns:
        The run, started.

    Raises:
        ConfigError: The data set is not here, or the settings do not fit the cluster.
        NodesFailed: A node is not healthy, or the head does not answer.
        StateError: Another run is active or starting.
    """
    options = engines.launch_options(config.train, config.launch)
    _require_exchange(settings.model_dump(), cluster, options)
    with progress.step(f"Checking data set {settings.dataset}") as step:
        data_files = datasets.find(settings.dataset, config.train.data, step.detail)
    nodes = control.check_nodes(state_dir, cluster, digest, options)
    run = control.plan(cluster, options, f"{settings.model}-{settings.dataset}", nodes)
    run = run.model_copy(update=engines.of_run(options))
    with lock.starting(state_dir), control.head_session(state_dir, cluster) as head:
        remote = (datasets.prepared(head, data_files) or _uploaded(head, data_files)) if data_files else None
        resolved = settings.model_copy(update={"run": run.id, "data": remote, "threads": run.threads})
        run = _start_trainer(state_dir, cluster, head, run, engines.program(config.train), resolved)
    if data_files:
        checksums.keep(state_dir, run, data_files)
    return run


def _upload_again(head: Session, settings: TrainConfig, data: Path | None, old: Run, cluster: str) -> None:
    """Ensure that the cluster has the data set that ``old`` trained on. Raises StateError if that is not possible."""
    if settings.data is None or head.run(["test", "-d", settings.data]).exit_code == 0:
        return
    with progress.step(f"Checking data set {settings.dataset}") as step:
        data_files = datasets.require(settings.dataset, data, step.detail)
    runs_resume.require_same(old, settings, data_files, cluster)
    _uploaded(head, data_files)


def _require_exchange(exchange: Mapping[str, Any], cluster: Cluster, launch: Launch) -> None:
    require_a_gpu_each(cluster)
    nodes = len(hosts(cluster, launch.np))
    recipes.communication.require(
        exchange, launch.controller, launch.np or cluster.slots, nodes if cluster.on_gpus else None
    )


def _start_trainer(
    state_dir: StateDir,
    cluster: Cluster,
    head: Session,
    run: Run,
    program: str,
    resolved: BaseModel,
    environment: UserEnvironment | None = None,
) -> Run:
    """Start the trainer program ``program`` with its configuration."""
    run = run.model_copy(update={"command": [PYTHON, "-m", f"orchestrator.trainer.{program}", run.directory]})
    settings = {"config.json": resolved.model_dump_json(indent=2) + "\n"}
    control.start(state_dir, cluster, head, run, {}, settings, environment.values if environment else None)
    return run


def _batch(config: Config, cluster: Cluster, ranks: int, memory: int, images: int) -> int:
    batch = recipes.batch_size(config.train, images, ranks, None if cluster.on_gpus else memory)
    wanted = config.train.batch_size or int(recipes.recipe(config.train)["batch_size"])
    if batch < wanted:
        room = f"{memory / 2**30:.1f} GiB of memory and {images // ranks} images"
        progress.note(f"{batch} images per rank and step instead of {wanted}: a rank has {room}")
    return batch


def _uploaded(head: Session, data_files: FoundDataset) -> str:
    with progress.step(f"Placing {data_files.dataset} on the shared storage") as step:
        return datasets.upload(head, data_files, step.detail)


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
    nodes = control.check_nodes(state_dir, cluster, digest, config.launch)
    run = control.plan(cluster, config.launch, f"prepare-{data_files.dataset}", nodes)
    with lock.starting(state_dir), control.head_session(state_dir, cluster) as head:
        datasets.require_space_for_records(head, data_files)
        source = _uploaded(head, data_files)
        resolved = PrepareConfig(
            source=source,
            target=data_files.records,
            shards=data_files.shard_counts(run.np),
            skip_unreadable=skip_unreadable,
            threads=run.threads,
        )
        return _start_trainer(state_dir, cluster, head, run, "data.prepare", resolved)


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
        ConfigError: No shards are prepared.
        NodesFailed: A node is not healthy, or the head does not answer.
        StateError: Another run is active or starting.
    """
    data_files = _find_dataset(config) if config.train.data else None
    one_each, options = cluster.with_one_slot(), config.launch.model_copy(update={"np": None})
    nodes = control.check_nodes(state_dir, one_each, digest, options)
    run = control.plan(one_each, options, f"stage-{config.train.dataset or 'data'}", nodes)
    with lock.starting(state_dir), control.head_session(state_dir, cluster) as head:
        there = (
            [datasets.prepared(head, data_files)] if data_files else datasets.all_prepared(head, config.train.dataset)
        )
        sources = [source for source in there if source]
        if not sources:
            what = f"{data_files.directory} is not prepared" if data_files else f"nothing is prepared in {SHARED}/data"
            raise ConfigError([f"train.data: {what}"], f"{command('data prepare', cluster.name)} makes shards of it")
        head_apart = cluster.storage == "nfs" and cluster.head in cluster.rank_nodes
        resolved = StageConfig(sources=sources, head_apart=head_apart, threads=run.threads)
        return _start_trainer(state_dir, one_each, head, run, "data.stage", resolved)


def _find_dataset(config: Config, remedy: str | None = None) -> FoundDataset:
    """Find the data set in train.data. Raises ConfigError if it is not one that shards are made of.

    Unreadable images are an error with the hint ``remedy``; without it they are skipped.
    """
    dataset = config.train.dataset
    if dataset not in SHARDED:
        problem = f"{dataset!r} is unknown" if dataset else "missing"
        wrong = f"{dataset}: is read into memory whole" if dataset in recipes.datasets() else problem
        raise ConfigError([f"train.dataset: {wrong}: shards are made of {', '.join(SHARDED)}"])
    with progress.step(f"Checking data set {dataset}") as step:
        return datasets.require(dataset, config.train.data, step.detail, remedy)


def script(
    state_dir: StateDir,
    cluster: Cluster,
    digest: str,
    config: Config,
    argv: Sequence[str],
    config_file: Path | None = None,
    environment: UserEnvironment | None = None,
    requirements: Requirements | None = None,
) -> Run:
    """Start a user's command on every rank, and send the directory of its script.

    Args:
        state_dir: State directory of the cluster.
        cluster: Deployed cluster.
        digest: Digest of the trainer image that the nodes must have.
        config: Configuration with the section launch.
        argv: Command, as in "python my_script.py ...".
        config_file: Configuration file in use, which may hold passwords and is not sent.
        environment: Variables for the ranks; the files that have them are not sent.
        requirements: Packages that the command needs beside the image's.

    Returns:
        The run, started.

    Raises:
        ConfigError: There is no script, its directory is too large, ``argv`` names a file that is not sent, or packages
            conflict with the image.
        NodesFailed: A node is not healthy, or the head does not answer.
        StateError: Another run is active or starting.
    """
    environment = environment or UserEnvironment()
    source = runs_script.gather(argv, config_file, *environment.files)
    for name, reason in source.left_out.items():
        progress.note(f"not sent: {name}: {reason}")
    return start_source(state_dir, cluster, digest, config, source, environment, requirements)


def start_source(
    state_dir: StateDir,
    cluster: Cluster,
    digest: str,
    config: Config,
    source: Source,
    environment: UserEnvironment,
    requirements: Requirements | None,
) -> Run:
    """Start the command of ``source`` on every rank; the rest is as for :func:`script`."""
    progress.note(f"sending {source}")
    options = choice.choose(config.launch, source)
    overlay = packages.provide(state_dir, cluster, digest, options, requirements) if requirements else None
    if options.launcher == "horovod":
        options = controller.choose(state_dir, cluster, digest, options)
    run = control.plan(cluster, options, "script", control.check_nodes(state_dir, cluster, digest, options))
    changes = {
        "command": source.command,
        "workdir": f"{run.directory}/{SOURCE}",
        **engines.of_run(options),
        "packages": overlay,
    }
    run, copy = run.model_copy(update=changes), source_code.packed(source)
    with lock.starting(state_dir), control.head_session(state_dir, cluster) as head:
        overlays.require(head, overlay)
        files = {f"{SOURCE}/{name}": path for name, path in source.files.items()}
        control.start(state_dir, cluster, head, run, files, {}, environment.values)
    source_code.keep(state_dir, run, copy)
    return run
