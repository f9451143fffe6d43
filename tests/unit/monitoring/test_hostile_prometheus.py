"""Numbers and times of a Prometheus that another person controls: shown or refused, never a traceback."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.cli import monitoring_tables, output
from orchestrator.errors import ContractError
from orchestrator.monitoring import current_state, run_series, series_summary
from orchestrator.monitoring.prometheus import Prometheus, Series
from tests import builders
from tests.stand_ins import prometheus_stand_in
from tests.stand_ins.prometheus_stand_in import NOW, Answers, vector
from tests.unit.monitoring import test_current_state

RUN = builders.run(started=NOW - 60.0)
NUMBERS = [1e30, -1e30, 1e308, 5e-324, 1e18, -1.0, 0.0, math.nan, math.inf, -math.inf]
TIMES = [1e30, -1.0, 1e12, "1e30", None, [], 10**400]
CLOCK = ("query", "vector(time())")


def show(shown: list[Series]) -> None:
    """Print `top`, `top --json`, `metrics` and `metrics --json` of these series."""
    answers = {**test_current_state.answers(shown, shown, running=True), ("query", current_state.NODES): vector(*shown)}
    answers |= {("query", current_state.RUNS): vector(*shown)}
    with prometheus_stand_in.listening(answers) as port, Prometheus(f"http://127.0.0.1:{port}") as prometheus:
        result = current_state.query_top(prometheus, ["demo-head", "demo-worker-0"])
    output.console.print(monitoring_tables.tables("demo", result))
    output.as_json(result)
    for training in series_summary.by_run(shown).values():
        monitoring_tables.run(training)
        output.as_json(training)


def everything(values: list[float]) -> list[Series]:
    """Return series that `top` and `metrics` read, with these values in turn."""
    every = [*test_current_state.NODES, *test_current_state.RUNS, *prometheus_stand_in.training()]
    return [Series(each.name, each.labels, [(NOW, values[n % len(values)])]) for n, each in enumerate(every)]


@pytest.mark.parametrize("value", NUMBERS)
def test_impossible_number_is_shown_or_left_out(value: float, capsys: pytest.CaptureFixture[str]) -> None:
    show(everything([value]))
    shown = capsys.readouterr().out
    assert "nan" not in shown.lower()
    assert "inf" not in shown.lower()
    assert "-1 day" not in shown


@given(values=st.lists(st.sampled_from(NUMBERS) | st.floats(), min_size=1, max_size=100))
def test_any_numbers_are_shown(values: list[float]) -> None:
    with output.console.capture():
        show(everything(values))


def refused(answers: Answers) -> str:
    """Return the message with which `series.fetch` refuses these answers."""
    every = {**prometheus_stand_in.answers_for_run(prometheus_stand_in.training()), **answers}
    with (
        prometheus_stand_in.listening(every) as port,
        Prometheus(f"http://127.0.0.1:{port}") as prometheus,
        pytest.raises(ContractError) as caught,
    ):
        run_series.fetch(prometheus, RUN, None)
    assert len(str(caught.value)) < 2000
    return str(caught.value)


def sample(value: Any) -> dict[str, Any]:
    return {"resultType": "vector", "result": [{"metric": {}, "value": value}]}


@pytest.mark.parametrize("value", ["1e30", "NaN", "+Inf", "-1", "x", 5, None, [], 10**400])
def test_invalid_clock_is_refused(value: Any) -> None:
    refused({CLOCK: sample([NOW, value])})


def test_missing_clock_is_refused() -> None:
    refused({CLOCK: {"resultType": "vector", "result": []}})


@pytest.mark.parametrize("time", TIMES)
def test_sample_with_an_invalid_time_is_refused(time: Any) -> None:
    name = f'count({run_series.MARK}{{run="{RUN.id}"}})'
    values = [[time, "1"]] * 1000
    message = refused({("query_range", name): {"resultType": "matrix", "result": [{"metric": {}, "values": values}]}})
    assert "result.0.values.0" in message


def test_series_without_a_sample_is_refused() -> None:
    name = f'count({run_series.MARK}{{run="{RUN.id}"}})'
    message = refused({("query_range", name): json.loads('{"result": [{"metric": {}}]}')})
    assert "without a sample" in message
