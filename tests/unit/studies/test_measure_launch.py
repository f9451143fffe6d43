"""Durations of launches, by one clock."""

import time

import pytest

from orchestrator.schema import RunStatus
from orchestrator.studies.journal import Started
from orchestrator.studies.measure_launch import seconds_of
from tests.unit.studies.studies import cells, study


def started(at: float) -> Started:
    cell = cells(study())[0]
    return Started(cell=cell, round=0, again=False, run="a", started=at, busy=0.0, command=[])


@pytest.mark.parametrize("hours", [-5, 0, 5])
def test_clock_of_this_machine_does_not_change_the_time_of_an_ended_launch(hours: int) -> None:
    status = RunStatus(state="finished", exit_code=0, started=1e6, ended=1e6 + 75.0)
    assert seconds_of(started(1e6 + 3600.0 * hours), status) == 75.0


def test_launch_that_ends_now_counts_from_its_preparation() -> None:
    assert 60.0 <= seconds_of(started(time.time() - 60.0), None) < 65.0
