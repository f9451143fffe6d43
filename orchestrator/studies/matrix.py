"""Cells of a study's matrix, the base case of each, and their names."""

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from orchestrator.errors import ConfigError
from orchestrator.schema.studies import Cell, Option
from orchestrator.studies.study_definition import Study, agrees, values


def cells(study: Study, slots: int, idle: int = 0) -> list[Cell]:
    """Return the cells in the order of the file.

    Args:
        study: The study as it is measured.
        slots: Ranks per node, for studies of nodes.
        idle: Nodes of a cluster that run no rank, for studies of nodes.

    Returns:
        Each cell once, without those that are excluded.

    Raises:
        ConfigError: Every cell is excluded.
    """
    sizes = study.nodes or study.ranks or []
    every = [
        Cell(
            engine=engine,
            model=model,
            dataset=dataset,
            batch=batch,
            nodes=size if study.nodes else None,
            ranks=max(0, size - idle) * slots if study.nodes else size,
            options=dict(zip(study.options, chosen, strict=True)),
        )
        for model, dataset in itertools.product(study.models, study.datasets)
        for batch in study.batch or (None,)
        for engine, size in itertools.product(study.engines, sizes)
        for chosen in itertools.product(*study.options.values())
    ]
    included = {cell.key: cell for cell in every if not any(agrees(cell, part) for part in study.exclude)}
    if not included:
        raise ConfigError([f"study {study.name}: exclude: no cell is left"], "remove an exclusion")
    return list(included.values())


def ranks_per_node(measured: Iterable[Cell]) -> tuple[int, int] | None:
    """Return the slots and the idle nodes, as of :func:`cells`, that explain the ranks of cells; None if none do."""
    sizes = {(cell.nodes, cell.ranks) for cell in measured if cell.nodes}
    for idle in (0, 1):
        slots = {ranks / (nodes - idle) if nodes > idle else 0.0 for nodes, ranks in sizes}
        if len(slots) == 1 and (each := slots.pop()) > 0 and each.is_integer():
            return int(each), idle
    return None


def base_part(study: Study) -> dict[str, Option]:
    """Return what base cases have: ``base`` of the study, else the smallest number of ranks or nodes.

    If there is only one such number, every cell would be its own base case: engines then compare with the first.
    """
    if study.base:
        return study.base
    if len(study.engines) > 1 and len(set(study.nodes or study.ranks or [])) == 1:
        return base_engine(study.engines)
    return {"nodes": min(study.nodes)} if study.nodes else {"ranks": min(study.ranks or [1])}


def base_engine(engines: Sequence[str]) -> dict[str, Option]:
    """Return what base cases have if engines are compared: the study's first, also if cells of it are excluded."""
    return {"engine": engines[0]}


def base_of(study: Study, cell: Cell, every: Sequence[Cell]) -> Cell | None:
    """Return the base case of ``cell``: the cell that differs from it only in what base cases have.

    Args:
        study: The study as it is measured.
        cell: A cell.
        every: All cells.

    Returns:
        The base case, the cell itself if it is one, and None if the matrix has none for it.
    """
    part = base_part(study)
    same = rest(cell, part)
    return next((other for other in every if rest(other, part) == same and agrees(other, part)), None)


def rest(cell: Cell, part: Collection[str]) -> dict[str, Any]:
    """Return the values of a cell whose keys are not in ``part``; nodes and ranks go together."""
    without = {*part, *({"nodes", "ranks"} if {"nodes", "ranks"} & {*part} else ())}
    return {key: value for key, value in values(cell).items() if key not in without}


def title(cell: Cell, study: Study | None = None) -> str:
    """Return the cell in words: "ours: resnet50 on mnist, batch 32, 2 ranks, precision float32".

    Options that all cells of ``study`` share are left out; see :func:`shared_options`.
    """
    size = counted(cell.nodes, "node") if cell.nodes else counted(cell.ranks, "rank")
    parts = [f"{cell.model} on {cell.dataset}", *([f"batch {cell.batch}"] if cell.batch else []), size]
    shared = _shared(study) if study else {}
    return f"{cell.engine}: " + ", ".join(parts + _in_words({k: v for k, v in cell.options.items() if k not in shared}))


def shared_options(study: Study) -> str:
    """Return the options that all cells have in common, in words."""
    return ", ".join(_in_words(_shared(study)))


def _shared(study: Study) -> dict[str, Option]:
    return {key: values[0] for key, values in study.options.items() if len(values) == 1}


def _in_words(options: Mapping[str, Option]) -> list[str]:
    return [f"{key} {value}" for key, value in options.items()]


def counted(count: int, what: str) -> str:
    """Return a number of things in words."""
    return f"{count} {what}{'s' * (count != 1)}"
