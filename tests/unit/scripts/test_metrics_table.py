"""The table of metrics: what it promises, and the page that is made from it."""

import re

from orchestrator.trainer.telemetry import metrics
from scripts import metrics_table


def test_the_page_is_what_the_tables_say() -> None:
    page = metrics_table.page()
    assert metrics_table.PAGE.read_text() == page, "run `python -m scripts.metrics_table`"


def test_names_and_units_follow_prometheus_conventions() -> None:
    for metric in metrics.TRAINING:
        assert re.fullmatch(r"orchestrator_training_[a-z0-9_]+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert ("second" in metric.unit) == ("_seconds" in metric.name)
        assert ("bytes" in metric.unit) == ("_bytes" in metric.name)
        assert metric.unit.startswith("ratio") == metric.name.endswith("_ratio")


def test_histograms_alone_have_buckets_and_those_grow() -> None:
    for metric in metrics.TRAINING:
        assert bool(metric.buckets) == (metric.kind == "histogram")
        assert list(metric.buckets) == sorted(set(metric.buckets))


def test_every_metric_says_how_it_is_measured_and_whose_it_is() -> None:
    for metric in metrics.TRAINING:
        assert metric.help.endswith(".")
        assert metric.measured
        assert metric.labels[:4] == ("run", "model", "dataset", "rank")
