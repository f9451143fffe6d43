"""Checks of a study before its first launch: its cells, data, room, cluster."""

import math
from collections.abc import Mapping, Sequence

from orchestrator import recipes, state
from orchestrator.cluster import Cluster
from orchestrator.config import Config
from orchestrator.config.paths import expanded
from orchestrator.config.section import MAX_NODES
from orchestrator.errors import ConfigError, command
from orchestrator.lifecycle import plan
from orchestrator.schema.bounded_files import shown
from orchestrator.schema.studies import Cell, Option
from orchestrator.studies import cluster_size, matrix, settings
from orchestrator.studies.cell_launch import Deployed, resized
from orchestrator.studies.cluster_size import ClusterSize
from orchestrator.studies.study_definition import Study, agrees
from orchestrator.studies.study_sections import FEWEST


def cells(config: Config, study: Study) -> list[Cell]:
    """Return the cells of a study, each of which `orchestrator train` would accept.

    Args:
        config: Configuration of the cluster.
        study: The study as it is measured.

    Returns:
        The cells in the order of the file.

    Raises:
        ConfigError: Some cells cannot be launched. It holds every problem.
    """
    size = cluster_size.read(config)
    if study.nodes:
        _require_rank_node(config, size)
    every = matrix.cells(study, size.slots, size.idle_nodes)
    _require_base(study, every)
    problems: dict[str, str] = {}
    for cell in every:
        try:
            _require_ranks(cell)
            settings.of_cell(config, study, cell)
        except ConfigError as error:
            for problem in error.problems:
                problems.setdefault(problem, f"study {study.name}: {matrix.title(cell, study)}: {problem}")
    if problems:
        raise ConfigError(list(problems.values()), "correct the study's file, or exclude these cells")
    return every


def _require_rank_node(config: Config, size: ClusterSize) -> None:
    """Check that not only a head without GPUs is deployed: the slots of workers are not known then."""
    if size.idle_nodes and size.nodes == 1:
        raise ConfigError(
            [f"cluster {config.name!r}: its only node is the head, which has no GPU and runs no rank"],
            f"deploy a worker first: {command('deploy --nodes 2', config.name)}",
        )


def _require_base(study: Study, every: Sequence[Cell]) -> None:
    """Check that a cell has the study's ``base``: without a base case there are no ratios, and ``width`` is void."""
    if study.base and not any(agrees(cell, study.base) for cell in every):
        reason = "`exclude` leaves them all out" + (", or `shrink` replaces its values" if study.shrunk else "")
        raise ConfigError(
            [f"study {study.name}: base: {shown(study.base)}: no cell has these values: {reason}"],
            "correct `base` in the study's file, or remove it for the default",
        )


def require_ratio(study: Study, every: Sequence[Cell]) -> None:
    """Check that a study with a ``width`` compares cells: without a ratio the width is void, but for the A/A pair.

    Args:
        study: The study as it is measured.
        every: Its cells.

    Raises:
        ConfigError: Every one of several cells is its own base case.
    """
    part = matrix.base_part(study)
    if study.repetitions.width is None or len(every) == 1 or not all(agrees(cell, part) for cell in every):
        return
    axes: Mapping[str, Sequence[Option]]
    axes = {**study.options, "batch": study.batch or [], "dataset": study.datasets, "model": study.models}
    base = next((f"`base: {{{key}: {values[0]}}}`" for key, values in axes.items() if len(values) > 1), "`base`")
    raise ConfigError(
        [f"study {study.name}: repetitions.width: {study.repetitions.width:g}: no ratio has an interval, since every"
         " cell is its own base case"],
        f"name the values of the base case, as in {base}, or give a number of launches: `repetitions: {FEWEST}`",
    )  # fmt: skip


def _require_ranks(cell: Cell) -> None:
    if not cell.ranks:
        raise ConfigError(["its only node is the head, which has no GPU and runs no rank"])


def require_data(study: Study) -> None:
    """Check that the directories of the study's data sets exist, or that they can be downloaded. Raises ConfigError."""
    used = {name: study.data[name] for name in study.datasets if name in study.data}
    missing = {name: path for name, path in used.items() if not expanded(f"data.{name}", path).is_dir()}
    problems = [f"data.{name}: {path}: no such directory" for name, path in missing.items()]
    problems += [f"data.{name}: {name} cannot be downloaded without {needs}" for name, needs in _needed(study).items()]
    if problems:
        raise ConfigError(problems, "name the directory of each with --data DATASET=DIR")


def _needed(study: Study) -> dict[str, str]:
    """Return what a download needs, by data set that can only come from a directory and has none."""
    known = recipes.datasets()
    return {name: known[name]["needs"] for name in study.datasets if name not in study.data and "needs" in known[name]}


def require_room(config: Config, study: Study, every: Sequence[Cell], deployed: Deployed, deploys: bool) -> None:
    """Check that the cluster can launch every cell, as far as that is known before the first launch.

    Args:
        config: Configuration of the cluster.
        study: The study as it is measured.
        every: Its cells.
        deployed: As of :func:`run`.
        deploys: Whether the cluster may grow and shrink to the nodes of a cell.

    Raises:
        ConfigError: It lacks a framework, or slots for a cell for which it will not grow.
        PreflightError: The provider cannot make as many nodes as the largest cell needs.
        StateError: It is not deployed.
    """
    record, cluster = state.deployed(state.for_cluster(config.name))
    for cell in every:
        deployed(settings.of_cell(config, study, cell))
    if study.nodes and deploys:
        largest = max(cell.nodes or 0 for cell in every)
        if largest > len(cluster.nodes):
            plan.preflight(resized(record, largest))
    else:
        _require_slots(config, study, every, cluster)


def _require_slots(config: Config, study: Study, every: Sequence[Cell], cluster: Cluster) -> None:
    largest = max(every, key=lambda cell: cell.ranks)
    if largest.ranks > cluster.slots:
        idle = len(cluster.nodes) - len(cluster.rank_nodes)
        needed = idle + math.ceil(largest.ranks * len(cluster.rank_nodes) / cluster.slots)
        room = f"make room: {command(f'deploy --nodes {needed}', config.name)}"
        slots = f"deploy with more `slots` in cluster.yaml: a cluster has at most {MAX_NODES} nodes"
        raise ConfigError(
            [f"study {study.name}: {matrix.title(largest, study)}: cluster {config.name!r} has {cluster.slots} slots"],
            f"leave the cell out, or {room if needed <= MAX_NODES else slots}",
        )


def require_no_deploys(study: Study, deploys: bool) -> None:
    """Check that no launch of a study needs a deploy. Raises ConfigError."""
    if study.nodes and deploys:
        raise ConfigError(
            [f"study {study.name}: nodes: --detach: the head cannot change the number of nodes"],
            "run it without --detach on a machine that stays on, or with --no-deploy on the nodes that are there",
        )
