"""Kinds of runs: the trainer, data preparation, data staging, and user scripts."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from orchestrator import lock, progress, recipes
from orchestrator.cluster import PYTHON, SHARED, Cluster, hosts, require_a_gpu_each
from orchestrator.config import Config, Launch
from orchestrator.errors import ConfigError, command
from orchestrator.runs import check, control, datasets
from orchestrator.runs import resume as runs_resume
from orchestrator.runs import script as runs_script
from orchestrator.runs.datasets import Found
from orchestrator.runs.launch import Run
from orchestrator.schema import PrepareConfig, StageConfig, TrainConfig
from orchestrator.ssh import Session
from orchestrator.state import Home

SOURCE = "src"
SHARDED = ("imagenet",)  # data sets that are larger than memory


def train(place: Home, cluster: Cluster, digest: str, config: Config) -> Run:
    """Start a training run; all input is checked before anything runs.

    Args:
        place: State directory of the cluster.
        cluster: Deployed cluster.
        digest: Digest of the trainer image that the nodes must have.
        config: Configuration with the sections train and launch.

    Returns:
        The run, started.

    Raises:
        ConfigError: A setting is invalid, or does not fit the data set or the nodes.
        PreflightError: The data set cannot be downloaded.
        NodesFailed: A node is not healthy, or the head does not answer.
        StateError: Another run is active or starting.
    """
    _, dataset = recipes.require(config.train)
    options = recipes.communication.launched(config.train, config.launch)
    _require_exchange(recipes.communication.settings(config.train), cluster, options)
    with progress.step(f"Checking data set {dataset}") as step:
        remedy = None if config.train.on_bad_sample == "skip" else "use --on-bad-sample skip to train without them"
        found = datasets.find(dataset, config.train.data, step.detail, remedy)
    if found and found.note:
        progress.note(f"{dataset}: {found.note}")
    nodes = control.ready(place, cluster, digest, options)
    ranks = options.np or cluster.slots
    images = recipes.training_images(dataset, found.train if found else None, ranks)
    batch = _batch(config, cluster, ranks, nodes.memory, images)
    options = check.settled(place, cluster, digest, options)
    run = control.plan(cluster, options, f"{config.train.model}-{dataset}", nodes)
    with lock.starting(place), control.head_session(place, cluster) as head:
        remote = (datasets.prepared(head, found) or _placed(head, found)) if found else None
        resolved = recipes.resolve(config.train, run.id, remote, images, run.np, run.threads, batch)
        return _start_ours(place, cluster, head, run, "train", resolved)


def resume(place: Home, cluster: Cluster, digest: str, config: Config, old: Run, limits: Mapping[str, Any]) -> Run:
    """Start a run that continues the training run ``old`` with its settings.

    Args:
        place: State directory of the cluster.
        cluster: Deployed cluster.
        digest: Digest of the trainer image that the nodes must have.
        config: Used only for launch options, and for the local data set if the cluster no longer has it.
        old: Training run to continue.
        limits: New ``epochs``, ``steps`` or ``max_time`` (seconds), as in TrainConfig; may be empty.

    Returns:
        The run, started.

    Raises:
        StateError: ``old`` is active or has no checkpoint, its data set cannot be placed, or another run is active.
        ConfigError: Nothing is left to train, or a setting does not fit the nodes.
        NodesFailed: A node is not healthy, or the head does not answer.
    """
    np = runs_resume.ranks(old, config.launch.np, cluster)
    launch = config.launch.model_copy(update={"np": np})
    with progress.step(f"Looking for a checkpoint of {old.id}"), control.head_session(place, cluster) as head:
        settings, index = runs_resume.read(place, head, old)
    resolved = runs_resume.continued(settings, index, old, np, limits, cluster.name)
    _require_exchange(resolved.model_dump(), cluster, launch)
    run = control.plan(cluster, launch, old.kind, control.ready(place, cluster, digest, launch))
    with lock.starting(place), control.head_session(place, cluster) as head:
        _place_again(head, settings, config.train.data, old, cluster.name)
        return _start_ours(place, cluster, head, run, "train", resolved.model_copy(update={"run": run.id}))


def _place_again(head: Session, settings: TrainConfig, data: Path | None, old: Run, cluster: str) -> None:
    """Ensure that the cluster has the data set that ``old`` trained on. Raises StateError if that is not possible."""
    if settings.data is None or head.run(["test", "-d", settings.data]).exit_code == 0:
        return
    with progress.step(f"Checking data set {settings.dataset}") as step:
        found = datasets.require(settings.dataset, data, step.detail)
    runs_resume.require_same(old, settings, found, cluster)
    _placed(head, found)


def _require_exchange(said: Mapping[str, Any], cluster: Cluster, launch: Launch) -> None:
    require_a_gpu_each(cluster)
    nodes = len(hosts(cluster, launch.np))
    recipes.communication.require(
        said, launch.controller, launch.np or cluster.slots, nodes if cluster.on_gpus else None
    )


def _start_ours(place: Home, cluster: Cluster, head: Session, run: Run, program: str, resolved: BaseModel) -> Run:
    """Start the trainer program ``program`` with its configuration."""
    run = run.model_copy(update={"command": [PYTHON, "-m", f"orchestrator.trainer.{program}", run.directory]})
    control.start(place, cluster, head, run, {}, {"config.json": resolved.model_dump_json(indent=2) + "\n"})
    return run


def _batch(config: Config, cluster: Cluster, ranks: int, memory: int, images: int) -> int:
    batch = recipes.batch_size(config.train, images, ranks, None if cluster.on_gpus else memory)
    wanted = config.train.batch_size or int(recipes.recipe(config.train)["batch_size"])
    if batch < wanted:
        room = f"{memory / 2**30:.1f} GiB of memory and {images // ranks} images"
        progress.note(f"{batch} images per rank and step instead of {wanted}: a rank has {room}")
    return batch


def _placed(head: Session, found: Found) -> str:
    with progress.step(f"Placing {found.dataset} on the shared storage") as step:
        return datasets.place(head, found, step.detail)


def prepare(place: Home, cluster: Cluster, digest: str, config: Config, skip_unreadable: bool) -> Run:
    """Start a run that makes TFRecord shards of a data set, each rank a part.

    Args:
        place: State directory of the cluster.
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
    found = _found(config, None if skip_unreadable else "--skip-unreadable leaves out what cannot be read")
    nodes = control.ready(place, cluster, digest, config.launch)
    run = control.plan(cluster, config.launch, f"prepare-{found.dataset}", nodes)
    with lock.starting(place), control.head_session(place, cluster) as head:
        datasets.require_space_for_records(head, found)
        source = _placed(head, found)
        resolved = PrepareConfig(
            source=source,
            target=found.records,
            shards=found.shard_counts(run.np),
            skip_unreadable=skip_unreadable,
            threads=run.threads,
        )
        return _start_ours(place, cluster, head, run, "data.prepare", resolved)


def stage(place: Home, cluster: Cluster, digest: str, config: Config) -> Run:
    """Start a run that copies prepared shards to every node's own disk.

    Args:
        place: State directory of the cluster.
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
    found = _found(config) if config.train.data else None
    one_each, options = cluster.with_one_slot(), config.launch.model_copy(update={"np": None})
    nodes = control.ready(place, one_each, digest, options)
    run = control.plan(one_each, options, f"stage-{config.train.dataset or 'data'}", nodes)
    with lock.starting(place), control.head_session(place, cluster) as head:
        there = [datasets.prepared(head, found)] if found else datasets.all_prepared(head, config.train.dataset)
        sources = [source for source in there if source]
        if not sources:
            what = f"{found.directory} is not prepared" if found else f"nothing is prepared in {SHARED}/data"
            raise ConfigError([f"train.data: {what}"], f"{command('data prepare', cluster.name)} makes shards of it")
        head_apart = cluster.storage == "nfs" and cluster.head in cluster.working
        resolved = StageConfig(sources=sources, head_apart=head_apart, threads=run.threads)
        return _start_ours(place, one_each, head, run, "data.stage", resolved)


def _found(config: Config, remedy: str | None = None) -> Found:
    """Find the data set in train.data. Raises ConfigError if it is not one that shards are made of.

    Unreadable images are an error with the hint ``remedy``; without it they are skipped.
    """
    dataset = config.train.dataset
    if dataset not in SHARDED:
        said = f"{dataset!r} is unknown" if dataset else "missing"
        wrong = f"{dataset}: is read into memory whole" if dataset in recipes.datasets() else said
        raise ConfigError([f"train.dataset: {wrong}: shards are made of {', '.join(SHARDED)}"])
    with progress.step(f"Checking data set {dataset}") as step:
        return datasets.require(dataset, config.train.data, step.detail, remedy)


def script(
    place: Home, cluster: Cluster, digest: str, config: Config, argv: Sequence[str], config_file: Path | None = None
) -> Run:
    """Start a user's command on every rank, and send the directory of its script.

    Args:
        place: State directory of the cluster.
        cluster: Deployed cluster.
        digest: Digest of the trainer image that the nodes must have.
        config: Configuration with the section launch.
        argv: Command, as in "python my_script.py ...".
        config_file: Configuration file in use, which may hold passwords and is not sent.

    Returns:
        The run, started.

    Raises:
        ConfigError: There is no script, its directory is too large, or ``argv`` names a file that is not sent.
        NodesFailed: A node is not healthy, or the head does not answer.
        StateError: Another run is active or starting.
    """
    found = runs_script.gather(argv, config_file)
    for name, reason in found.left_out.items():
        progress.note(f"not sent: {name}: {reason}")
    progress.note(f"sending {found}")
    options = check.settled(place, cluster, digest, config.launch)
    run = control.plan(cluster, options, "script", control.ready(place, cluster, digest, options))
    run = run.model_copy(update={"command": found.command, "workdir": f"{run.directory}/{SOURCE}"})
    with lock.starting(place), control.head_session(place, cluster) as head:
        control.start(place, cluster, head, run, {f"{SOURCE}/{name}": path for name, path in found.files.items()}, {})
    return run
