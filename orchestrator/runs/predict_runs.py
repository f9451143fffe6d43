"""Predict runs as they start, and compare their predictions with what they measured."""

import time
from dataclasses import replace
from pathlib import Path

from orchestrator import state
from orchestrator.cluster import Cluster, ranks_by_host
from orchestrator.prediction import gradient_groups, link_kinds, single_rank
from orchestrator.prediction.cluster_links import Connection
from orchestrator.prediction.communication_overlap import Options, possible
from orchestrator.prediction.compare_with_runs import Reviewed
from orchestrator.prediction.compare_with_runs import review as compared
from orchestrator.prediction.forecast import forecast
from orchestrator.prediction.single_rank import Node
from orchestrator.runs import prediction_inputs
from orchestrator.runs.prediction_inputs import RESULTS, History, LinkQuery, ProfileQuery, read
from orchestrator.runs.run_record import Run
from orchestrator.schema import Predicted, Profile, Results, TrainConfig
from orchestrator.state import StateDir

PREDICTION = "prediction.json"


def save(state_dir: StateDir, cluster: Cluster, run: Run, config: TrainConfig) -> None:
    """Predict a training run and save the prediction with it.

    There is none for one rank, for nodes with different numbers of ranks, or without a profile or a check.

    Args:
        state_dir: State directory of the cluster.
        cluster: Deployed cluster.
        run: The run.
        config: Configuration of the run.
    """
    ranks = list(ranks_by_host(cluster, run.np).values())
    if run.np == 1 or config.adasum or len(set(ranks)) > 1:  # the model has as many ranks on every node
        return
    history = History(state_dir, prediction_inputs.processors(run.hardware.values()))
    wanted = ProfileQuery(config.model, config.image_size, config.batch_size, config.precision, run.threads)
    step_profile = prediction_inputs.profile(history, wanted)
    if step_profile is None:
        return
    rank_step = single_rank.from_profile(step_profile, prediction_inputs.cores(cluster))
    local = link_kinds.between_ranks(rank_step.cores)
    measured_link = prediction_inputs.connection(history, LinkQuery(len(ranks), ranks[0], local, run.controller))
    if measured_link:
        predicted(step_profile, rank_step, *measured_link, run, config).write(state_dir.runs / run.id / PREDICTION)


def predicted(
    step_profile: Profile, rank_step: Node, connected: Connection, link: str, run: Run, config: TrainConfig
) -> Predicted:
    """Predict a run with as many ranks on every node.

    Args:
        step_profile: Profile of a run of one rank.
        rank_step: The node of that profile.
        connected: Connection of the ranks, with those that each node has.
        link: What the connection is known from.
        run: The run.
        config: Configuration of the run.

    Returns:
        The prediction.
    """
    group = gradient_groups.largest("ours", run.fusion_threshold)
    compression = possible(config.compression, step_profile.precision, adasum=config.adasum)
    options = Options(compression=compression, passes=config.backward_passes_per_step, group=group)
    connected = replace(connected, hierarchical=config.hierarchical)
    (expected,) = forecast(rank_step, connected, [run.np // connected.slots], options)
    rate = expected.images_per_second
    return Predicted(
        images_per_second=rate.value,
        low=rate.low,
        high=rate.high,
        efficiency=expected.efficiency.value,
        ranks=run.np,
        made=time.time(),
        profile=step_profile.run,
        link=link,
    )


def review() -> list[Reviewed]:
    """Compare the predictions of all clusters' runs with what these measured."""
    directories = sorted(state.root().glob("*/runs/*/"))
    reviews = (of_directory(path.parents[1].name, path) for path in directories)
    return [each for each in reviews if each is not None]


def of_directory(cluster: str, directory: Path) -> Reviewed | None:
    """Compare the prediction in a run's directory with its results; None if one of them is missing."""
    return compared(cluster, read(directory / PREDICTION, Predicted), read(directory / RESULTS, Results))
