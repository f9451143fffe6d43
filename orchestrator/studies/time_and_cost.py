"""Estimate a study before it runs: its cells, the order of launches, deploys, time, cost."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from statistics import median

from orchestrator import providers, state
from orchestrator.config import Config
from orchestrator.lifecycle import prices
from orchestrator.runs import store
from orchestrator.schema import TrainConfig, bounded_files
from orchestrator.schema.bounded_files import Unreadable
from orchestrator.schema.studies import Cell, Launch
from orchestrator.studies import cluster_size, journal, matrix, settings
from orchestrator.studies import launch_schedule as schedules
from orchestrator.studies.contestants import contestants
from orchestrator.studies.launch_schedule import Schedule
from orchestrator.studies.status import Row, rows, title
from orchestrator.studies.study_definition import Study

SHOWN_ROUNDS = 2


@dataclass(frozen=True)
class Step:
    """A launch: number of its round, from 1, its contestant, and the nodes to which the cluster is deployed before."""

    round: int
    cell: str
    deploy: int | None


@dataclass(frozen=True)
class Plan:
    """Launches that a study will make.

    Attributes:
        shared: Options that all cells have in common, in words; titles of cells leave them out.
        cells: Its contestants.
        order: Launches of the next two rounds.
        deploys: Deploys that change the number of nodes, for ``launches``.
        launches: Launches that are left, at least.
        most: Launches that are left, at most, without repeats that are not due yet.
        seconds: Time that they take, of those with a known time; None if there are none.
        limited: Whether launches may end before the time limit that ``seconds`` assumes of them.
        unknown: Number of cells that are launched, and whose time is not known; an A/A pair is one.
        cost: Cost of that time, of what has a price; None without time or prices.
    """

    shared: str
    cells: list[Row]
    order: list[Step]
    deploys: int
    launches: int
    most: int
    seconds: float | None
    limited: bool
    unknown: int
    cost: float | None


def plan(config: Config, study: Study, cells: Sequence[Cell], directory: Path, deploys: bool = True) -> Plan:
    """Return what a study will do.

    Args:
        config: Configuration of the cluster.
        study: The study as it is measured.
        cells: Its cells.
        directory: Its directory, which may hold launches already.
        deploys: Whether the cluster may grow and shrink to the nodes of a cell.

    Returns:
        The plan.
    """
    launches, nodes = journal.read(directory), cluster_size.read(config).nodes
    schedule, everyone = Schedule(study, cells, launches, nodes, len(launches)), contestants(study, cells)
    known = {contestant.key: _seconds(config, study, contestant.cell, launches) for contestant in everyone}
    limit = study.until.time
    each = {key: limit if seconds is None else seconds for key, seconds in known.items()}
    remaining, repeats = schedule.remaining(), schedule.repeats()
    changes = schedules.deploys(remaining, nodes) if deploys else [None] * len(remaining)
    left = Counter(planned.contestant.key for planned in remaining) + Counter((r.key, r.again) for r in repeats)
    tries = schedule.expected() / max(1, left.total())
    times = {key: tries * count * seconds for key, count in left.items() if (seconds := each[key]) is not None}
    sizes = {contestant.key: (deploys and contestant.cell.nodes) or nodes for contestant in everyone}
    return Plan(
        shared=matrix.shared_options(study),
        cells=rows(study, cells, launches),
        order=[
            Step(planned.round + 1, title(planned.contestant, study), change)
            for planned, change in zip(remaining, changes, strict=True)
            if planned.round < remaining[0].round + SHOWN_ROUNDS
        ],
        deploys=len(changes) - changes.count(None),
        launches=left.total(),
        most=schedule.most() + len(repeats),
        seconds=fsum(times.values()) if times or not left else None,
        limited=any(known[key] is None for key in left) and _ends_sooner(study),
        unknown=len({cell for cell, _ in left.keys() - times.keys()}),
        cost=_cost(config, [(sizes[key], seconds) for key, seconds in times.items()]),
    )


def _ends_sooner(study: Study) -> bool:
    """Tell whether a launch with a time limit may end before it."""
    until = study.until
    return bool(until.time and (until.steps or until.epochs or until.top1))


def _seconds(config: Config, study: Study, cell: Cell, launches: Sequence[Launch]) -> float | None:
    """Return the seconds of a launch: of the cell, else of runs like it on this cluster; None if there are none."""
    measured = [launch.seconds for launch in launches if launch.key == cell.key and not launch.problem]
    if measured:
        return median(measured)
    state_dir, kind = state.for_cluster(config.name), f"{cell.model}-{cell.dataset}"
    like = [run for run in store.list_runs(state_dir) if run.kind == kind and run.np == cell.ranks]
    ends = [(store.status(state_dir, run), run) for run in like]
    alike = [end for end, run in ends if end and _is_alike(state_dir.runs / run.id, study, cell)]
    # Both by the head's clock: this machine's may differ.
    times = [end.ended - end.started for end in alike if end.state == "finished"]
    return median(times) if times else None


def _is_alike(directory: Path, study: Study, cell: Cell) -> bool:
    """Tell whether a run had the engine, batch, steps, epochs and test samples of the cell's launches."""
    with suppress(FileNotFoundError, Unreadable):
        config = bounded_files.read_model(directory / "config.json", TrainConfig)
        limit = study.until.steps or study.until.epochs
        if config.test_samples != settings.test_samples(study, cell):
            return False
        if config.engine != cell.engine or cell.batch not in (None, config.batch_size):
            return False
        return limit == (config.steps if study.until.steps else config.epochs)
    return False


def _cost(config: Config, times: Iterable[tuple[int, float]]) -> float | None:
    """Return the cost of clusters, each a number of nodes and its seconds; None if nothing of them has a price."""
    costs = [hourly * seconds / 3600 for nodes, seconds in times if (hourly := _hourly_cost(config, nodes)) is not None]
    return fsum(costs) if costs else None


def _hourly_cost(config: Config, nodes: int) -> float | None:
    priced: Mapping[str, int] = providers.get(config.provider).priced(config.model_copy(update={"nodes": nodes}))
    each = [item.sum for item in prices.bill(priced, config.prices) if item.sum is not None]
    return sum(each) if each else None
