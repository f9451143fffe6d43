"""The table of metrics, and the page made from it."""

import re

from orchestrator.trainer.telemetry import metrics
from scripts import write_metrics_table

DCGM = write_metrics_table.ROOT / "ansible/roles/dcgm_exporter/files/dcgm.csv"


def test_page_equals_the_tables() -> None:
    page = write_metrics_table.page()
    assert write_metrics_table.PAGE.read_text() == page, "run `python -m scripts.write_metrics_table`"


def test_page_lists_what_dcgm_exporter_is_told_to_export() -> None:
    told = re.findall(r"^(DCGM_\w+), (\w+), (.+)$", DCGM.read_text(), re.MULTILINE)
    listed = re.findall(r"^\| `(DCGM_\w+)` \| (\w+) \| (.+) \|$", write_metrics_table.page(), re.MULTILINE)
    assert listed == told


def test_code_has_no_escaped_bars() -> None:
    r"""GitHub shows ``\|`` of a table's code as a bar, mkdocs with the backslash."""
    assert "\\|" not in write_metrics_table.page()


def test_names_and_units_follow_prometheus_conventions() -> None:
    for metric in metrics.TRAINING:
        assert re.fullmatch(r"orchestrator_training_[a-z0-9_]+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert ("second" in metric.unit) == ("_seconds" in metric.name)
        assert ("bytes" in metric.unit) == ("_bytes" in metric.name)
        assert metric.unit.startswith("ratio") == metric.name.endswith("_ratio")


def test_only_histograms_have_buckets_and_they_grow() -> None:
    for metric in metrics.TRAINING:
        assert bool(metric.buckets) == (metric.kind == "histogram")
        assert list(metric.buckets) == sorted(set(metric.buckets))


def test_every_metric_has_a_measurement_and_a_scope() -> None:
    for metric in metrics.TRAINING:
        assert metric.help.endswith(".")
        assert metric.measured
        assert metric.labels[:4] == ("run", "model", "dataset", "rank")
