"""The client of Prometheus' HTTP API: its number format, its error messages, and a time limit."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from orchestrator.errors import ContractError, OrchestratorError
from orchestrator.monitoring.prometheus import Prometheus, Series
from orchestrator.services import tunnel
from tests.stand_ins import echo_stand_in, prometheus_stand_in
from tests.stand_ins.prometheus_stand_in import NOW, Answers, Requests

UP = Series("up", {"node": "demo-head"}, [(NOW, 1.0)])


@contextmanager
def prometheus_with(
    answers: Answers, requests: Requests | None = None, until: float = math.inf
) -> Iterator[Prometheus]:
    with prometheus_stand_in.listening(answers, requests) as port, Prometheus(address(port), until=until) as prometheus:
        yield prometheus


def address(port: int) -> str:
    return f"http://127.0.0.1:{port}"


def test_instant_vector_is_a_sample_per_series() -> None:
    with prometheus_with({("query", "up"): prometheus_stand_in.vector(UP)}) as prometheus:
        assert prometheus.query("up") == [UP]
        assert prometheus.now() == NOW


def test_numbers_outside_json_are_read() -> None:
    values = [math.inf, -math.inf, math.nan, 1e-9]
    every = [Series("x", {"rank": str(n)}, [(NOW, value)]) for n, value in enumerate(values)]
    with prometheus_with({("query", "x"): prometheus_stand_in.vector(*every)}) as prometheus:
        assert [repr(series.value) for series in prometheus.query("x")] == [repr(value) for value in values]


def test_range_query_has_bounds_and_step() -> None:
    query, answer = Requests(), Series("x", {}, [(NOW - 5, 1.0), (NOW, 2.0)])
    with prometheus_with({("query_range", "x"): prometheus_stand_in.matrix(answer)}, query) as prometheus:
        assert prometheus.query_range("x", NOW - 5, NOW, 5.0) == [answer]
    bounds = {"start": str(NOW - 5), "end": str(NOW), "step": "5.0"}
    assert query == [{"path": "query_range", "query": "x", **bounds}]


def test_refused_query_is_an_error_in_prometheus_words() -> None:
    with (
        prometheus_with({}) as prometheus,
        pytest.raises(OrchestratorError, match=r"refuses .*parse error: up\)") as caught,
    ):
        prometheus.query("up)")
    assert caught.value.hint == "`orchestrator deploy` repairs the head"


@pytest.mark.parametrize("content", ["<html>", "{}", '{"status": "success", "data": {"result": [{"value": 1}]}}'])
def test_answer_of_another_shape_is_named(content: str) -> None:
    with echo_stand_in.listening(content) as here, Prometheus(here) as prometheus, pytest.raises(ContractError):
        prometheus.query("up")


def test_unreachable_server_is_an_error_with_its_remedy() -> None:
    with (
        Prometheus(address(tunnel.free_port(None))) as prometheus,
        pytest.raises(OrchestratorError, match=r"Prometheus does not answer: .*refused") as caught,
    ):
        prometheus.now()
    assert caught.value.hint == "`orchestrator status` shows the head"


def test_total_wait_is_limited() -> None:
    started = time.monotonic()
    with prometheus_stand_in.listening({}, seconds=5.0) as port:
        with Prometheus(address(port), until=started + 0.3) as prometheus:
            for _ in range(2):  # no time is left for the second
                with pytest.raises(OrchestratorError, match="does not answer"):
                    prometheus.now()
        assert time.monotonic() - started < 3.0


def test_wait_for_an_answer_that_comes_slowly_is_limited() -> None:
    """Each byte comes in time."""
    started = time.monotonic()
    with prometheus_stand_in.listening({}, seconds_per_byte=0.1) as port:
        with (
            Prometheus(address(port), until=started + 0.5) as prometheus,
            pytest.raises(OrchestratorError, match="not complete after"),
        ):
            prometheus.now()
        assert time.monotonic() - started < 3.0


def test_proxy_of_the_user_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(variable, address(tunnel.free_port(None)))
    with prometheus_with({("query", "up"): prometheus_stand_in.vector(UP)}) as prometheus:
        assert prometheus.query("up") == [UP]
