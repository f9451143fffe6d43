"""Source of one rank's step of a prediction: options, else runs of the cluster."""

from typing import NamedTuple

from orchestrator import recipes, state
from orchestrator.cli import follow_run
from orchestrator.cli.launch_options import deployed_for_trainer
from orchestrator.cluster import Cluster
from orchestrator.config import Config, Train
from orchestrator.errors import ConfigError, command
from orchestrator.prediction import machine_types, ready_gradients, single_rank
from orchestrator.prediction.single_rank import Node
from orchestrator.runs import jobs, prediction_inputs, run_record
from orchestrator.runs.prediction_inputs import History, ProfileQuery
from orchestrator.schema import Profile
from orchestrator.state import Record

PROFILE_STEPS, PROFILE_SECONDS = 60, 180.0
OR_SPEED = "or give --images-per-second or --step-seconds of one rank"


class Overrides(NamedTuple):
    """Options that replace a profile (``step_seconds``, ``images_per_second``, ``cores``) or a check.

    ``machine_type`` is one of Google's, for all nodes; ``slots`` are the ranks of a node.
    """

    step_seconds: float | None = None
    images_per_second: float | None = None
    cores: int | None = None
    link: str | None = None
    latency: str | None = None
    within: str = "pcie"
    machine_type: str | None = None
    slots: int | None = None


class NodeSource(NamedTuple):
    """Source of one rank's step, and its precision."""

    text: str
    precision: str


def require_one_speed(overrides: Overrides) -> None:
    """Raise ConfigError if the speed of a rank is given twice."""
    if overrides.step_seconds and overrides.images_per_second:
        given = f"--step-seconds {overrides.step_seconds:g} and --images-per-second {overrides.images_per_second:g}"
        raise ConfigError([f"{given}: both give the speed of one rank: expected one of them"])


def make_profile(config: Config, overrides: Overrides) -> None:
    """Train a few steps on one rank of the cluster, which leaves a profile.

    Args:
        config: Configuration of the cluster, without ``overrides``.
        overrides: As of :func:`node`.

    Raises:
        ConfigError: :func:`node` would not use the profile.
        OrchestratorError: As for starting a run.
    """
    only = {"steps": PROFILE_STEPS, "max_time": PROFILE_SECONDS, "save_model": False}
    train = _available(config.train).model_copy(update=only)
    launch = config.launch.model_copy(update={"np": 1})
    short = config.model_copy(update={"train": train, "launch": launch})
    state_dir, cluster, digest = deployed_for_trainer(short)
    _require_same_threads(with_nodes(config, overrides), overrides, cluster)
    run = jobs.train(state_dir, cluster, digest, short)
    follow_run.follow(state_dir, cluster, run, False, show=lambda *_: None, quiet=True)


def _require_same_threads(config: Config, overrides: Overrides, cluster: Cluster) -> None:
    """Check that a profile made on ``cluster`` has the threads that :func:`node` expects. Raises ConfigError."""
    expected = _threads(config, overrides, state.read(state.for_cluster(config.name)))
    if expected is None or _has_speed(overrides) or cluster.on_gpus:
        return
    deployed = run_record.threads(cluster)
    if deployed == expected:
        return
    deploy = command(f"deploy --slots {config.slots}", config.name)
    remedy = "deploy nodes with as many cores for a rank" if overrides.cores else f"{deploy} changes that"
    problem = f"--profile: a rank on cluster {config.name!r} has {deployed} threads, expected {expected}"
    raise ConfigError([f"{problem}, as many as it has cores in the prediction"], f"{remedy}, {OR_SPEED}")


def with_nodes(config: Config, overrides: Overrides) -> Config:
    """Return ``config`` with the ranks per node and the machine type of ``overrides``, if they are set."""
    config = config.model_copy(update={"slots": overrides.slots or config.slots})
    if overrides.machine_type is None:
        return config
    gcp = config.gcp.model_copy(update={"machine_type": overrides.machine_type, "head_machine_type": None})
    return config.model_copy(update={"provider": "gcp", "gcp": gcp})


def node(config: Config, overrides: Overrides, history: History) -> tuple[Node, NodeSource]:
    """Return one rank's step: from ``overrides``, else from the newest matching profile in ``history``.

    Raises:
        ConfigError: There is neither.
    """
    recipe = recipes.recipe(config.train)
    size = int(config.train.image_size or recipe["image_size"])
    if _has_speed(overrides):
        batch = int(config.train.batch_size or recipe["batch_size"])
        seconds = overrides.step_seconds or batch / (overrides.images_per_second or 1.0)
        gradients = ready_gradients.estimate(str(config.train.model), size, int(recipe["classes"]))
        filled = config.model_copy(update={"slots": slots(config, overrides, history)})
        cores = overrides.cores or machine_types.cores(filled)
        text = f"{seconds:.4g} s for {batch} images {_computing(cores)}, as given"
        source = NodeSource(text, config.train.precision or "float32")
        return single_rank.from_step(batch, seconds, gradients, cores), source
    return _measured(config, overrides, history, size)


def slots(config: Config, overrides: Overrides, history: History) -> int:
    """Return the ranks of a node: as configured, else of the deployed node with the fewest, else by machine type.

    Args:
        config: Configuration of the cluster, with those of ``overrides``.
        overrides: Options of the command.
        history: Runs of the cluster.

    Returns:
        The number of ranks.
    """
    record = None if overrides.machine_type else state.read(history.state_dir)
    deployed = min(each.slots for each in record.cluster.rank_nodes.values()) if record and record.cluster else None
    return config.slots or deployed or machine_types.ranks(config)


def heads_without_ranks(config: Config, rank_step: Node, overrides: Overrides, history: History) -> int:
    """Return 1 if ranks compute on GPUs and the head has none, so that it runs no rank; else 0.

    Args:
        config: Configuration of the cluster, with the options of the command.
        rank_step: One rank's step, which tells whether a GPU computes it.
        overrides: Options of the command.
        history: Runs of the cluster.

    Returns:
        The number of nodes without ranks.
    """
    if rank_step.cores:
        return 0
    record = None if overrides.machine_type else state.read(history.state_dir)
    if record and record.cluster and record.cluster.on_gpus:
        return int(record.cluster.head not in record.cluster.rank_nodes)
    return int(machine_types.has_head_without_gpu(config))


def _computing(cores: float | None) -> str:
    """Return in words what computes a step; None stands for a GPU."""
    return "on a GPU" if cores is None else f"on {cores:g} core{'s' * (cores != 1)}"


def _has_speed(overrides: Overrides) -> bool:
    return bool(overrides.step_seconds or overrides.images_per_second)


def _measured(config: Config, overrides: Overrides, history: History, size: int) -> tuple[Node, NodeSource]:
    """Return the step of a profile of ``size`` pixels, by as many threads as the ranks will have."""
    record = state.read(history.state_dir)
    deployed = prediction_inputs.cores(record.cluster, config.slots) if record and record.cluster else None
    cores = overrides.cores or deployed
    threads = _threads(config, overrides, record)
    query = ProfileQuery(str(config.train.model), size, config.train.batch_size, config.train.precision, threads)
    profile = prediction_inputs.profile(history, query)
    if profile is None:
        raise _no_profile(config, threads, prediction_inputs.profile(history, query._replace(threads=None)))
    text = f"run {profile.run}: {len(profile.steps)} steps of {profile.batch} images in {profile.precision}"
    if _is_elsewhere(overrides, record):
        text = f"{text}, not measured on {overrides.machine_type}"
    return single_rank.from_profile(profile, cores), NodeSource(text, profile.precision)


def _threads(config: Config, overrides: Overrides, record: Record | None) -> int | None:
    """Return the threads that a profile must have had, as many as a rank will have cores; None for any number."""
    if _is_elsewhere(overrides, record):
        return None
    deployed = run_record.threads(record.cluster, config.slots) if record and record.cluster else None
    return overrides.cores or deployed


def _is_elsewhere(overrides: Overrides, record: Record | None) -> bool:
    """Tell whether the prediction is of a machine type that the cluster does not have."""
    if overrides.machine_type is None:
        return False
    if record is None or record.config["provider"] != "gcp":
        return True
    return bool(record.config.get("gcp", {}).get("machine_type") != overrides.machine_type)


def _available(train: Train) -> Train:
    """Return ``train`` on synthetic images of the same size, if its own need a directory and none is named."""
    if not _needs_directory(train) or (train.batch_size or 0) > recipes.SYNTHETIC_IMAGES_PER_SLOT:
        return train
    if recipes.datasets()[str(train.dataset)].get("table"):
        return train
    size = train.image_size or int(recipes.recipe(train)["image_size"])
    return train.model_copy(update={"dataset": "synthetic", "image_size": size})


def _needs_directory(train: Train) -> bool:
    return "needs" in recipes.datasets()[str(train.dataset)] and train.data is None


def _no_profile(config: Config, threads: int | None, other: Profile | None) -> ConfigError:
    """Return the error; ``other`` is a profile whose number of threads alone does not fit."""
    train = _available(config.train)
    options = [
        f"--{key.replace('_', '-')} {value}"
        for key in ("batch_size", "image_size", "precision")
        if (value := getattr(train, key)) is not None
    ]
    data, also = (["--data DIR"], "") if _needs_directory(train) else ([], ", and so does --profile")
    words = " ".join(["train", str(train.model), "--dataset", str(train.dataset), *data, *options])
    make = command(f"{words} --np 1 --steps {PROFILE_STEPS}", config.name)
    problem = f"train.model: no run of one rank on cluster {config.name!r} is a profile of {train.model} as asked for"
    if other:
        problem += f": run {other.run} had {other.threads} threads, expected {threads}, as many as a rank has cores"
        also += ", if the nodes are deployed with as many cores for a rank"
    return ConfigError([problem], f"{make} makes one{also}; {OR_SPEED}")
