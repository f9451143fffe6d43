"""Cells of a matrix and their base cases."""

from typing import Any

import pytest

from orchestrator.errors import ConfigError
from orchestrator.studies import matrix
from tests.unit.studies.studies import cells, study


def test_every_combination_is_a_cell_once() -> None:
    every = cells(study(models=["lenet", "resnet20"], batch=[8, 8, 16], options={"xla": [True, False]}))
    assert len({cell.key for cell in every}) == len(every) == 2 * 2 * 2 * 2


def test_excluded_cells_are_left_out() -> None:
    every = cells(study(options={"xla": [True, False]}, exclude=[{"ranks": 2, "xla": True}]))
    assert [(cell.ranks, cell.options["xla"]) for cell in every] == [(1, True), (1, False), (2, False)]


def test_matrix_without_a_cell_is_refused() -> None:
    with pytest.raises(ConfigError, match="no cell is left"):
        cells(study(exclude=[{"model": "lenet"}]))


def test_node_has_as_many_ranks_as_slots() -> None:
    every = matrix.cells(study(ranks=None, nodes=[1, 3]), slots=4)
    assert [(cell.nodes, cell.ranks) for cell in every] == [(1, 4), (3, 12)]


def test_base_case_has_the_fewest_ranks_and_the_same_rest() -> None:
    of = study(models=["lenet", "resnet20"], ranks=[4, 2, 8])
    every = cells(of)
    for cell in every:
        base = matrix.base_of(of, cell, every)
        assert base
        assert (base.model, base.ranks) == (cell.model, 2)


def test_base_case_can_be_another_engine() -> None:
    of = study(engines=["ours", "horovod-tensorflow"], base={"engine": "horovod-tensorflow"})
    every = cells(of)
    bases = [matrix.base_of(of, cell, every) for cell in every]
    assert [(base.engine, base.ranks) for base in bases if base] == [
        ("horovod-tensorflow", cell.ranks) for cell in every
    ]


@pytest.mark.parametrize("size", [{"ranks": [2]}, {"ranks": None, "nodes": 2}])
def test_engines_of_one_size_compare_with_the_first(size: dict[str, Any]) -> None:
    of = study(engines=["torch-ddp", "ours"], models=["lenet", "resnet20"], **size)
    every = cells(of)
    bases = [matrix.base_of(of, cell, every) for cell in every]
    assert [(base.engine, base.model) for base in bases if base] == [("torch-ddp", cell.model) for cell in every]


def test_one_engine_of_one_size_is_its_own_base_case() -> None:
    of = study(ranks=[2], options={"xla": [True, False]})
    every = cells(of)
    assert [matrix.base_of(of, cell, every) for cell in every] == every


def test_cell_whose_base_case_is_excluded_has_none() -> None:
    of = study(models=["lenet", "resnet20"], exclude=[{"model": "lenet", "ranks": 1}])
    every = cells(of)
    assert [matrix.base_of(of, cell, every) is None for cell in every] == [True, False, False]


def test_title_names_every_difference_of_a_cell() -> None:
    (cell,) = cells(study(ranks=1, batch=32, options={"precision": "float32"}))
    assert matrix.title(cell, study(options={"precision": "float32"})) == "ours: lenet on mnist, batch 32, 1 rank"
    assert matrix.title(cell) == "ours: lenet on mnist, batch 32, 1 rank, precision float32"


def test_idle_head_has_no_ranks() -> None:
    every = matrix.cells(study(ranks=None, nodes=[1, 2, 3]), slots=4, idle=1)
    assert [(cell.nodes, cell.ranks) for cell in every] == [(1, 0), (2, 4), (3, 8)]


@pytest.mark.parametrize(
    ("slots", "idle", "nodes"), [(1, 0, [1, 2, 4]), (2, 0, [3]), (1, 1, [2]), (1, 1, [2, 3]), (4, 1, [3, 5])]
)
def test_cells_tell_slots_and_idle_nodes(slots: int, idle: int, nodes: list[int]) -> None:
    every = matrix.cells(study(ranks=None, nodes=nodes), slots, idle)
    assert matrix.ranks_per_node(every) == (slots, idle)


def test_cells_whose_ranks_fit_no_slots_tell_nothing() -> None:
    odd = [cell.model_copy(update={"nodes": 4}) for cell in cells(study(ranks=[2, 3]))]
    assert matrix.ranks_per_node(odd) is None
    assert matrix.ranks_per_node(cells(study())) is None
