"""All series of a run: fetched from Prometheus, written as CSV, read, drawn."""

import csv
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import ConfigError, ContractError, OrchestratorError, StateError
from orchestrator.monitoring import run_series, series_summary
from orchestrator.monitoring.prometheus import Prometheus, Series
from orchestrator.plot import timeline_plot
from orchestrator.schema import RunStatus
from tests import builders
from tests.stand_ins import prometheus_stand_in
from tests.stand_ins.prometheus_stand_in import NOW, Answers, Requests

RUN = builders.run(started=NOW - 60.0)
ENDED = RunStatus(state="finished", exit_code=0, started=NOW - 60.0, ended=NOW)
SELECTOR = f'{{run="{RUN.id}"}}'
LABELS = {"run": RUN.id, "model": "resnet20", "dataset": "mnist"}
RECORDED = [
    Series("run:orchestrator_training_images:rate30s", LABELS, [(NOW - 5.0, 500.0), (NOW, 570.0)]),
    *(
        Series(f"run:orchestrator_training_{part}:ratio", LABELS, [(NOW - 5.0, share), (NOW, share)])
        for part, share in {"input": 0.2, "compute": 0.5, "communication": 0.3}.items()
    ),
]
EVERYTHING = [*prometheus_stand_in.training(), *RECORDED]


@contextmanager
def prometheus(requests: Requests | None = None, changes: Answers | None = None) -> Iterator[Prometheus]:
    answers = {**prometheus_stand_in.answers_for_run(EVERYTHING), **(changes or {})}
    with (
        prometheus_stand_in.listening(answers, requests) as port,
        Prometheus(f"http://127.0.0.1:{port}", "demo") as client,
    ):
        yield client


def by_identity(every: list[Series]) -> list[tuple[str, list[tuple[str, str]], list[tuple[float, float]]]]:
    return sorted((s.name, sorted(s.labels.items()), s.samples) for s in every)


def test_series_are_fetched_over_the_runs_span_by_server_time() -> None:
    requests = Requests()
    with prometheus(requests) as client:
        fetched = run_series.fetch(client, RUN, None)
    assert by_identity(fetched) == by_identity(EVERYTHING)
    spans = {(float(a["start"]), float(a["end"]), float(a["step"])) for a in requests if "step" in a}
    assert (NOW - 10.0, NOW + 10.0, 5.0) in spans  # one step more: scores outlive the other series
    assert len(spans) == 2  # the other query finds the run's first and last sample
    assert min(start for start, _, _ in spans) == RUN.started - run_series.AROUND_SECONDS


@pytest.mark.parametrize("hours", [-9.0, 9.0])
@pytest.mark.parametrize("status", [ENDED, None])
def test_series_are_found_although_this_machines_clock_is_wrong(hours: float, status: RunStatus | None) -> None:
    """It may be set to local time instead of UTC, for example."""
    requests, run = Requests(), builders.run(started=RUN.started + 3600 * hours)
    with prometheus(requests) as client:
        assert by_identity(run_series.fetch(client, run, status)) == by_identity(EVERYTHING)
    looked = [(float(a["start"]), float(a["end"])) for a in requests if a.get("query", "").startswith("count(")]
    assert all(start <= ENDED.started and ENDED.ended <= end for start, end in looked)


def test_long_run_with_many_ranks_is_fetched_with_larger_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_series, "MOST_ROWS", 4)
    answers = prometheus_stand_in.answers_for_run(EVERYTHING).items()
    sampled = {(path, f"last_over_time({query}[{step}s])"): answer for (path, query), answer in answers
               for step in (8, 15, 23)}  # fmt: skip
    requests = Requests()
    with prometheus(requests, sampled) as client:
        run_series.fetch(client, RUN, ENDED)
    steps = {a["query"].partition(SELECTOR)[0]: float(a["step"]) for a in requests if "step" in a}
    assert steps["run:orchestrator_training_images:rate30s"] == 5.0
    # Six series of 15 s, in four rows. Each value is the last of its step, so none is skipped.
    assert steps["last_over_time(orchestrator_training_step_part_seconds_sum"] == 23.0


def test_run_without_training_series_is_refused() -> None:
    nothing = {("query_range", f"count({run_series.MARK}{SELECTOR})"): prometheus_stand_in.matrix()}
    with (
        prometheus(changes=nothing) as client,
        pytest.raises(StateError, match="no training series of run resnet20-mnist-1") as caught,
    ):
        run_series.fetch(client, RUN, None)
    assert "`orchestrator runs --cluster demo`" in caught.value.hint


def test_written_series_are_read_back(tmp_path: Path) -> None:
    odd = Series("odd", {"what": 'a "quoted", one'}, [(NOW, math.inf), (NOW + 0.123, 1e-9)])
    some = Series("odd", {"other": "x"}, [(NOW, 2.0)])
    assert run_series.write([*EVERYTHING, odd, some], tmp_path / "new" / "csv") == len({s.name for s in EVERYTHING}) + 1
    assert by_identity(run_series.read(tmp_path / "new" / "csv")) == by_identity([*EVERYTHING, odd, some])


def test_file_has_a_column_per_label_between_time_and_value(tmp_path: Path) -> None:
    run_series.write(EVERYTHING, tmp_path)
    rows = list(csv.reader((tmp_path / "orchestrator_training_loss.csv").read_text().splitlines()))
    assert rows[0] == ["time", "dataset", "model", "node", "rank", "run", "split", "value"]
    assert rows[2] == [str(NOW), "mnist", "resnet20", "demo-head", "0", RUN.id, "train", "0.5"]
    assert len(rows) == 1 + 2 * 2 * 2  # ranks, splits, samples
    assert (tmp_path / "run.orchestrator_training_images.rate30s.csv").exists()


@pytest.mark.parametrize("text", ["", "time,value\nnow,1\n", "time,rank,value\n1\n"])
def test_file_without_a_series_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "up.csv").write_text(text)
    with pytest.raises(StateError, match=r"up\.csv cannot be read"):
        run_series.read(tmp_path)


def test_series_are_stored_all_or_none() -> None:
    state_dir = builders.deployed()
    (state_dir.runs / RUN.id).mkdir(parents=True)
    broken = {("query_range", f"orchestrator_training_loss{SELECTOR}"): {"result": [{"metric": 1}]}}
    with prometheus(changes=broken) as client, pytest.raises(OrchestratorError):
        run_series.save(state_dir, client, RUN, ENDED)
    assert list((state_dir.runs / RUN.id).iterdir()) == []
    with prometheus() as client:
        run_series.save(state_dir, client, RUN, ENDED)
    assert by_identity(run_series.read(run_series.directory(state_dir, RUN))) == by_identity(EVERYTHING)
    assert [path.name for path in (state_dir.runs / RUN.id).iterdir()] == ["metrics"]


def test_unfinished_series_of_killed_commands_are_removed() -> None:
    state_dir = builders.deployed()
    for process in (os.getpid(), 999_999_999):
        (state_dir.runs / RUN.id / f".metrics.{process}-abcd_123" / "metrics").mkdir(parents=True)
    with prometheus() as client:
        run_series.save(state_dir, client, RUN, ENDED)
    names = {path.name for path in (state_dir.runs / RUN.id).iterdir()}
    assert names == {"metrics", f".metrics.{os.getpid()}-abcd_123"}


@pytest.mark.parametrize("name", ["../../stolen", "/tmp/stolen", "", ".hidden", "a/b", "a" * 300, "a\n", "\x1b[2J"])
def test_invalid_metric_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ContractError) as caught:
        run_series.write([Series(name, {}, [(NOW, 1.0)])], tmp_path / "csv")
    assert repr(name[:200]) in caught.value.message
    hostile = [{"__name__": name, "run": RUN.id}]
    key = ("series", SELECTOR)
    with prometheus(changes={key: hostile}) as client, pytest.raises(ContractError, match="has a metric called"):
        run_series.fetch(client, RUN, None)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_more_metrics_than_a_run_has_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_series, "MOST_METRICS", 2)
    with prometheus() as client, pytest.raises(ContractError, match="at most 2 are kept"):
        run_series.fetch(client, RUN, None)


def test_endless_answer_is_not_read_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.monitoring.prometheus.ANSWER_BYTES", 1 << 20)
    endless = {("query", "up"): {"result": [], "junk": "x" * (2 << 20)}}
    with prometheus(changes=endless) as client, pytest.raises(ContractError, match="more than 1 MiB"):
        client.query("up")


def test_picture_shows_speed_loss_and_parts_over_minutes() -> None:
    panels: list[Any] = timeline_plot.picture(EVERYTHING, RUN.id).axes
    images, loss, split = panels
    [line] = images.get_lines()
    assert [float(x) for x in line.get_xdata()] == pytest.approx([0.0, 5.0 / 60.0])
    assert [float(y) for y in line.get_ydata()] == [500.0, 570.0]
    assert [line.get_label() for line in loss.get_lines()] == ["train", "test"]
    assert split.get_legend_handles_labels()[1] == ["input", "compute", "communication"]
    tops = [max(float(y) for _, y in area.get_paths()[0].vertices) for area in split.collections]
    assert tops == pytest.approx([0.2, 0.7, 1.0])


def test_picture_has_the_format_of_its_name(tmp_path: Path) -> None:
    timeline_plot.draw(EVERYTHING, RUN.id, tmp_path / "run.png")
    timeline_plot.draw([], RUN.id, tmp_path / "empty.svg")
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG\r\n")
    assert "<svg" in (tmp_path / "empty.svg").read_text()
    with pytest.raises(ConfigError, match=r"run\.txt: a picture ends with \.png, \.svg, \.pdf"):
        timeline_plot.draw(EVERYTHING, RUN.id, tmp_path / "run.txt")
    with pytest.raises(ConfigError, match="No such file or directory"):
        timeline_plot.draw(EVERYTHING, RUN.id, tmp_path / "nowhere" / "run.png")


@pytest.mark.parametrize("rank", ["", "x", "-1", "1.5", "9" * 5000, "\x1b[2J"])
def test_rank_that_is_no_number_is_named(rank: str) -> None:
    hostile = [
        Series(each.name, {**each.labels, "rank": rank}, each.samples) for each in prometheus_stand_in.training()
    ]
    with pytest.raises(ContractError, match="a series of rank"):
        series_summary.by_run(hostile)
