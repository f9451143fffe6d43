"""Grafana's dashboards: JSON equal to Python's output, valid for Grafana's types, with existing series only."""

import importlib
import json
import re
import sys
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.trainer.telemetry import metrics, nvml_fields
from scripts.dashboards import queries as dashboard_queries

BOARDS = dashboard_queries.boards()
UIDS = [board["uid"] for board in BOARDS]
RULES = Path(dashboard_queries.FOLDER).parents[1] / "prometheus/rules/recording.yml"
PROMETHEUS = {"up", "ALERTS", "ALERTS_FOR_STATE"}
# Names of node_exporter 1.5.0 of Debian 12 that queries use.
NODE_EXPORTER = {
    "node_cpu_seconds_total",
    "node_disk_io_time_seconds_total",
    "node_filesystem_avail_bytes",
    "node_filesystem_readonly",
    "node_filesystem_size_bytes",
    "node_load1",
    "node_netstat_Tcp_OutSegs",
    "node_netstat_Tcp_RetransSegs",
    "node_network_mtu_bytes",
    "node_network_receive_drop_total",
    "node_network_receive_errs_total",
    "node_network_speed_bytes",
    "node_network_transmit_drop_total",
    "node_network_transmit_errs_total",
}
WORDS = {"and", "or", "unless", "offset", "by", "on", "ignoring", "group_left"}
VALUES = {"cluster": "demo", "node": ["demo-1", "demo-2"], "run": "train-20261121-153000-ab12"}


def panels(board: dashboard_queries.Board) -> list[dict[str, Any]]:
    """Return the panels of a dashboard without headings."""
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def ranges(board: dashboard_queries.Board) -> list[dict[str, Any]]:
    """Return all mappings of a range of values to a word."""
    configs = [panel["fieldConfig"] for panel in panels(board)]
    set_by_name = [each for config in configs for way in config["overrides"] for each in way["properties"]]
    listed = [each["value"] for each in set_by_name if each["id"] == "mappings"]
    listed += [config["defaults"].get("mappings", []) for config in configs]
    return [mapping for mappings in listed for mapping in mappings if mapping["type"] == "range"]


def known() -> set[str]:
    """Return the names of all existing series."""
    training = {metric.name for metric in (*metrics.TRAINING, metrics.INTERFACE)}
    histograms = {metric.name for metric in metrics.TRAINING if metric.kind == "histogram"}
    parts = {f"{name}_{part}" for name in histograms for part in ("sum", "count", "bucket")}
    groups = yaml.safe_load(RULES.read_text())["groups"]
    recorded = {rule["record"] for group in groups for rule in group["rules"]}
    gpu = {field.name for field in nvml_fields.FIELDS}
    return PROMETHEUS | NODE_EXPORTER | gpu | recorded | parts | (training - histograms)


def series(expression: str) -> Iterator[str]:
    """Yield the series in a PromQL expression: words that are no string, label, duration, function or keyword."""
    bare = re.sub(r'"[^"]*"', "", expression)
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]|offset \S+", " ", bare)
    bare = re.sub(r"\b(by|on|ignoring|group_left) \([^)]*\)", " ", bare)
    bare = re.sub(r"label_replace\((\w+)[^)]*\)", r"\1", bare)
    yield from (name for name in re.findall(r"(?<![\w.])[A-Za-z_:][\w:]*\b(?!\s*\()", bare) if name not in WORDS)


def sdk(module: str) -> Any:
    """Import a module of the SDK, or one that needs it; skip the test if the SDK is missing."""
    if sys.version_info < (3, 11):
        pytest.skip("Grafana's SDK needs Python 3.11")
    return importlib.import_module(module)


@pytest.mark.parametrize("board", BOARDS, ids=UIDS)
class TestEveryDashboard:
    def test_is_read_completely_by_grafanas_types(self, board: dashboard_queries.Board) -> None:
        sdk("grafana_foundation_sdk.cog.plugins").register_default_plugins()
        read = sdk("grafana_foundation_sdk.models.dashboard").Dashboard.from_json(board)
        encoder = sdk("grafana_foundation_sdk.cog.encoder").JSONEncoder()
        assert json.loads(encoder.encode(sdk("scripts.dashboards.common_parts").in_sight(read))) == board

    def test_every_panel_has_description_unit_and_text_for_no_value(self, board: dashboard_queries.Board) -> None:
        for panel in panels(board):
            shown = panel["fieldConfig"]["defaults"]
            texts = [
                panel["title"],
                panel["description"],
                shown["unit"],
                shown["noValue"],
                shown["thresholds"]["steps"],
            ]
            assert all(texts), f"{panel['title']}: {texts}"

    def test_panels_have_separate_places_and_unique_numbers(self, board: dashboard_queries.Board) -> None:
        assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
        for panel, other in combinations([panel["gridPos"] for panel in board["panels"]], 2):
            side_by_side = panel["x"] + panel["w"] <= other["x"] or other["x"] + other["w"] <= panel["x"]
            above = panel["y"] + panel["h"] <= other["y"] or other["y"] + other["h"] <= panel["y"]
            assert side_by_side or above, f"{panel} lies on {other}"

    def test_panels_fill_the_width_exactly(self, board: dashboard_queries.Board) -> None:
        rows: dict[int, int] = {}
        for position in (panel["gridPos"] for panel in board["panels"]):
            rows[position["y"]] = rows.get(position["y"], 0) + position["w"]
        assert set(rows.values()) == {24}

    def test_every_word_has_a_range_with_both_ends(self, board: dashboard_queries.Board) -> None:
        ends = [(mapping["options"]["from"], mapping["options"]["to"]) for mapping in ranges(board)]
        assert ends or board["title"] == "Compare runs"
        assert all(low is not None and high is not None and low < high for low, high in ends)

    def test_missing_values_have_a_neutral_colour(self, board: dashboard_queries.Board) -> None:
        for panel in (panel for panel in panels(board) if panel["type"] == "stat"):
            unknown = [it["options"] for it in panel["fieldConfig"]["defaults"]["mappings"] if it["type"] == "special"]
            (result,) = [mapping["result"] for mapping in unknown if mapping["match"] == "null"]
            assert (result["text"], result["color"]) == (panel["fieldConfig"]["defaults"]["noValue"], "#808080")

    def test_starts_with_verdicts(self, board: dashboard_queries.Board) -> None:
        first = [panel for panel in board["panels"] if panel["gridPos"]["y"] == 0]
        assert {panel["type"] for panel in first} == {"stat"}

    def test_links_to_all_others(self, board: dashboard_queries.Board) -> None:
        assert {link["url"] for link in board["links"]} == {f"/d/{uid}" for uid in UIDS if uid != board["uid"]}

    def test_variables_are_queried(self, board: dashboard_queries.Board) -> None:
        variables = board["templating"]["list"]
        assert variables
        assert all(variable["query"] and variable["refresh"] for variable in variables)

    def test_uses_prometheus_only(self, board: dashboard_queries.Board) -> None:
        sources = [panel["datasource"] for panel in panels(board)]
        assert all(source == {"type": "prometheus", "uid": "prometheus"} for source in sources)


def test_json_equals_the_output_of_python() -> None:
    generated = dict(sdk("scripts.dashboards.__main__").texts())
    committed = {path.name: path.read_text() for path in dashboard_queries.FOLDER.glob("*.json")}
    assert generated == committed, "run: python -m scripts.dashboards"


@pytest.mark.parametrize(("value", "word"), [(0.79, "room"), (0.8, "filling"), (0.9, "scarce"), (7.0, "scarce")])
def test_value_at_a_limit_has_the_word_and_colour_above_it(value: float, word: str) -> None:
    words = [mapping.options for mapping in sdk("scripts.dashboards.units_and_queries").DISK.mappings()]
    assert next(limit.result.text for limit in words if limit.from_val <= value <= limit.to) == word


def test_dashboards_have_different_ids_and_titles() -> None:
    assert len(set(UIDS)) == len({board["title"] for board in BOARDS}) == len(BOARDS) == 5


def test_newest_run_is_selected() -> None:
    board = next(board for board in BOARDS if board["title"] == "Training run")
    run = next(variable for variable in board["templating"]["list"] if variable["name"] == "run")
    assert (run["sort"], run["multi"]) == (0, False)  # 0: in Prometheus' order
    assert run["query"].startswith("query_result(sort_desc(max by (run) (")
    assert re.findall(run["regex"].strip("/"), '{run="lenet-mnist-1"} 17 1') == ["lenet-mnist-1"]
    assert "current" not in run  # Grafana selects the first


@pytest.mark.parametrize("title", ["Temperature", "Power", "Last XID", "ECC errors"])
def test_value_that_vgpus_do_not_report_denies_no_gpu(title: str) -> None:
    gpus = next(board for board in BOARDS if board["title"] == "GPUs")
    texts = {panel["fieldConfig"]["defaults"]["noValue"] for panel in panels(gpus) if panel["title"] == title}
    assert texts == {"no GPU reports it"}


@pytest.mark.parametrize(
    "query", list(dashboard_queries.queries(VALUES)), ids=lambda query: f"{query.dashboard}-{query.panel}"
)
def test_query_uses_existing_series(query: dashboard_queries.Query) -> None:
    names = set(series(query.expression))
    assert names
    assert names <= known(), f"{names - known()} of {query.expression}"
    assert not re.search(r"\$[A-Za-z_]", query.expression)


def test_rates_of_steps_look_back_two_minutes() -> None:
    rates = r"rate\(orchestrator_training_step_\w+\{[^}]*\}\[(\w+)\]"
    windows = [re.findall(rates, query.expression) for query in dashboard_queries.queries(VALUES)]
    assert {window for found in windows for window in found} == {"2m"}, "slow steps leave gaps in shorter ones"


def test_numbers_of_a_long_range_miss_no_short_run() -> None:
    """A subquery's step grows with the range of the dashboard, to 5 min for a week."""
    sampled = [query.expression for query in dashboard_queries.queries({**VALUES, "__interval": "STEP"})]
    assert [expression for expression in sampled if re.search(r"\[\w+:STEP\]", expression)] == []


def test_best_accuracy_is_of_the_test_split_alone() -> None:
    (query,) = (query for query in dashboard_queries.queries(VALUES) if query.panel == "Best top-1")
    assert set(re.findall(r'split="(\w+)"', query.expression)) == {"test"}


@pytest.mark.parametrize(("panel", "name"), [("Images per second", "last"), ("Stragglers", "Images per second")])
def test_last_speed_of_a_run_leaves_evaluations_out(panel: str, name: str) -> None:
    """The rate of images is 0 while the last evaluation takes place."""
    (query,) = (q for q in dashboard_queries.queries(VALUES) if (q.panel, q.name) == (panel, name))
    assert ":orchestrator_training_step_images:rate2m" in query.expression


def test_read_only_file_systems_are_no_full_disks() -> None:
    full = [query.expression for query in dashboard_queries.queries(VALUES) if "filesystem" in query.expression]
    assert full
    assert all("unless node_filesystem_readonly" in expression for expression in full)


def test_panels_that_may_be_empty_exist() -> None:
    all_queries = list(dashboard_queries.queries(VALUES))
    existing = {(query.dashboard, query.panel, part) for query in all_queries for part in (query.kind, query.name)}
    assert set(dashboard_queries.MAY_BE_EMPTY) <= existing


def test_queries_of_gpus_are_marked() -> None:
    gpu = {query.dashboard for query in dashboard_queries.queries(VALUES) if query.needs_gpu}
    assert gpu == {"GPUs", "Training run"}


def test_several_values_become_one_group_and_numbered_groups_stay() -> None:
    filled = dashboard_queries.filled_in('up{node=~"$node"}[$__range] $1', {"node": ["a", "b"], "__range": "5m"})
    assert filled == 'up{node=~"(a|b)"}[5m] $1'


def test_variable_without_a_value_is_named() -> None:
    with pytest.raises(ValueError, match=r"\$run has no value"):
        dashboard_queries.filled_in('x{run="$run"}', {})
