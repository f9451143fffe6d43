"""What a run can be: our trainer, the making and the staging of its data, or a script."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from orchestrator import datasets, lock, progress, proof, recipes, resumption, runs, source
from orchestrator.cluster import PYTHON, SHARED, Cluster, hosts, require_a_gpu_each
from orchestrator.config import Config, Launch
from orchestrator.datasets import Found
from orchestrator.errors import ConfigError, command
from orchestrator.launch import Run
from orchestrator.schema import PrepareConfig, StageConfig, TrainConfig
from orchestrator.ssh import Session
from orchestrator.state import Home

SOURCE = "src"
SHARDED = ("imagenet",)  # data sets that are larger than memory


def train(place: Home, cluster: Cluster, digest: str, config: Config) -> Run:
    """Start a training run. Everything that can be wrong with the input is found before anything runs."""
    _, dataset = recipes.require(config.train)
    options = recipes.exchange.launched(config.train, config.launch)
    _require_exchange(recipes.exchange.settings(config.train), cluster, options)
    with progress.step(f"Checking data set {dataset}") as step:
        remedy = None if config.train.on_damage == "skip" else "--on-damage skip goes on without what cannot be read"
        found = datasets.find(dataset, config.train.data, step.detail, remedy)
    if found and found.note:
        progress.note(f"{dataset}: {found.note}")
    nodes = runs.ready(place, cluster, digest, options)
    ranks = options.np or cluster.slots
    images = recipes.training_images(dataset, found.train if found else None, ranks)
    batch = _batch(config, cluster, ranks, nodes.memory, images)
    options = proof.settled(place, cluster, digest, options)
    run = runs.plan(cluster, options, f"{config.train.model}-{dataset}", nodes)
    with lock.starting(place), runs.head_session(place, cluster) as head:
        remote = (datasets.prepared(head, found) or _placed(head, found)) if found else None
        resolved = recipes.resolve(config.train, run.id, remote, images, run.np, run.threads, batch)
        return _start_ours(place, cluster, head, run, "train", resolved)


def resume(place: Home, cluster: Cluster, digest: str, config: Config, old: Run, limits: Mapping[str, Any]) -> Run:
    """Start a run that goes on where the training run ``old`` stopped, with its settings, and ``limits`` if any.

    Limits are ``epochs``, ``steps`` and ``max_time`` (seconds), as in TrainConfig. Of ``config`` count how it is
    launched, and where its data set is here, for a cluster that has it no more.
    """
    np = resumption.ranks(old, config.launch.np, cluster)
    launch = config.launch.model_copy(update={"np": np})
    with progress.step(f"Looking for a checkpoint of {old.id}"), runs.head_session(place, cluster) as head:
        settings, index = resumption.read(place, head, old)
    resolved = resumption.continued(settings, index, old, np, limits, cluster.name)
    _require_exchange(resolved.model_dump(), cluster, launch)
    run = runs.plan(cluster, launch, old.kind, runs.ready(place, cluster, digest, launch))
    with lock.starting(place), runs.head_session(place, cluster) as head:
        _place_again(head, settings, config.train.data, old, cluster.name)
        return _start_ours(place, cluster, head, run, "train", resolved.model_copy(update={"run": run.id}))


def _place_again(head: Session, settings: TrainConfig, data: Path | None, old: Run, cluster: str) -> None:
    """See to it that the cluster has what ``old`` trained on. Raises StateError where it cannot be placed."""
    if settings.data is None or head.run(["test", "-d", settings.data]).exit_code == 0:
        return
    with progress.step(f"Checking data set {settings.dataset}") as step:
        found = datasets.require(settings.dataset, data, step.detail)
    resumption.require_same(old, settings, found, cluster)
    _placed(head, found)


def _require_exchange(said: Mapping[str, Any], cluster: Cluster, launch: Launch) -> None:
    require_a_gpu_each(cluster)
    nodes = len(hosts(cluster, launch.np))
    recipes.exchange.require(said, launch.controller, launch.np or cluster.slots, nodes if cluster.on_gpus else None)


def _start_ours(place: Home, cluster: Cluster, head: Session, run: Run, program: str, resolved: BaseModel) -> Run:
    """Start ``program`` of the worker side with its configuration."""
    run = run.model_copy(update={"command": [PYTHON, "-m", f"orchestrator.trainer.{program}", run.directory]})
    runs.start(place, cluster, head, run, {}, {"config.json": resolved.model_dump_json(indent=2) + "\n"})
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
    """Start the making of TFRecord shards of a data set, each rank its part."""
    found = _found(config, None if skip_unreadable else "--skip-unreadable leaves out what cannot be read")
    nodes = runs.ready(place, cluster, digest, config.launch)
    run = runs.plan(cluster, config.launch, f"prepare-{found.dataset}", nodes)
    with lock.starting(place), runs.head_session(place, cluster) as head:
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
    """Start the copying of prepared shards to every node's own disk: of the data set in train.data, or of all."""
    found = _found(config) if config.train.data else None
    one_each, options = cluster.with_one_slot(), config.launch.model_copy(update={"np": None})
    nodes = runs.ready(place, one_each, digest, options)
    run = runs.plan(one_each, options, f"stage-{config.train.dataset or 'data'}", nodes)
    with lock.starting(place), runs.head_session(place, cluster) as head:
        there = [datasets.prepared(head, found)] if found else datasets.all_prepared(head, config.train.dataset)
        sources = [source for source in there if source]
        if not sources:
            what = f"{found.directory} is not prepared" if found else f"nothing is prepared in {SHARED}/data"
            raise ConfigError([f"train.data: {what}"], f"{command('data prepare', cluster.name)} makes shards of it")
        head_apart = cluster.storage == "nfs" and cluster.head in cluster.working
        resolved = StageConfig(sources=sources, head_apart=head_apart, threads=run.threads)
        return _start_ours(place, one_each, head, run, "data.stage", resolved)


def _found(config: Config, remedy: str | None = None) -> Found:
    """The data set in train.data. Raises ConfigError where it is not one that shards are made of.

    Images that cannot be read are an error with this ``remedy``, if there is one.
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
    """Start ``argv`` ("python my_script.py ...") on every rank, with the directory that the script lives in."""
    found = source.gather(argv, config_file)
    for name, reason in found.left_out.items():
        progress.note(f"not sent: {name}: {reason}")
    progress.note(f"sending {found}")
    options = proof.settled(place, cluster, digest, config.launch)
    run = runs.plan(cluster, options, "script", runs.ready(place, cluster, digest, options))
    run = run.model_copy(update={"command": found.command, "workdir": f"{run.directory}/{SOURCE}"})
    with lock.starting(place), runs.head_session(place, cluster) as head:
        runs.start(place, cluster, head, run, {f"{SOURCE}/{name}": path for name, path in found.files.items()}, {})
    return run
