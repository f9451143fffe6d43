"""Estimated time and cost of launches that differ in length and in nodes."""

from pathlib import Path

import pytest

from orchestrator.config import Config
from orchestrator.studies import journal, time_and_cost
from orchestrator.studies.launch_schedule import Schedule
from orchestrator.studies.study_definition import Study
from tests.unit.studies.studies import cells, launch, study

PRICED = {
    "provider": "openstack", "openstack": {"image": "ubuntu", "flavor": "large"}, "prices": {"large": 30.0}
}  # fmt: skip


def measured(directory: Path, of: Study, seconds: dict[int, float]) -> None:
    """Write one launch for each of ``seconds``, by the place of its cell in the first round."""
    first = Schedule(of, cells(of), []).remaining()
    with journal.opened(directory) as current:
        for place, each in seconds.items():
            current.end(launch(first[place], seconds=each))


def test_long_launches_cost_the_price_of_their_own_nodes(tmp_path: Path) -> None:
    of = study(ranks=None, nodes=[1, 8], until={"epochs": 1}, repetitions=2)
    measured(tmp_path, of, {0: 800.0, 1: 800.0, 2: 100.0})
    planned = time_and_cost.plan(Config.model_validate(PRICED), of, cells(of), tmp_path)
    assert (planned.launches, planned.seconds) == (3, 2 * 800.0 + 100.0)
    assert planned.cost == pytest.approx((2 * 800 * 1 + 100 * 8) * 30 / 3600)


def test_time_without_unknown_cells_is_that_of_the_others(tmp_path: Path) -> None:
    of = study(models=["lenet", "resnet20"], repetitions=2)
    measured(tmp_path, of, {0: 10.0, 1: 20.0})
    planned = time_and_cost.plan(Config(), of, cells(of), tmp_path)
    assert (planned.launches, planned.unknown) == (8, 2)
    assert planned.seconds == 10.0 + 20.0 + 2 * 10.0


def test_a_a_pair_is_one_unknown_cell(tmp_path: Path) -> None:
    of = study(repetitions=2)
    measured(tmp_path, of, {1: 20.0})
    assert time_and_cost.plan(Config(), of, cells(of), tmp_path).unknown == 1


def test_complete_study_takes_no_more_time(tmp_path: Path) -> None:
    of = study(repetitions=1)
    measured(tmp_path, of, {0: 10.0, 1: 10.0, 2: 10.0})
    planned = time_and_cost.plan(Config(), of, cells(of), tmp_path)
    assert (planned.launches, planned.seconds, planned.unknown, planned.cost) == (0, 0.0, 0, None)
