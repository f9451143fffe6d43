"""`orchestrator predict`, as a user sees it."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from orchestrator.cli import app
from orchestrator.errors import OrchestratorError
from orchestrator.prediction.messages import ENGINES
from orchestrator.recipes import models

GIVEN = ("predict", "resnet50", "--dataset", "imagenet", "--images-per-second", "360", "--batch-size", "128")
LINKED = (*GIVEN, "--link", "10gbit", "--latency", "50us")


def printed(*words: str) -> str:
    found = CliRunner().invoke(app, list(words))
    assert found.exit_code == 0, found.exception or found.output
    return found.stdout


def refused(*words: str) -> OrchestratorError:
    found = CliRunner().invoke(app, list(words))
    assert isinstance(found.exception, OrchestratorError)
    return found.exception


def predicted(*words: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(printed(*words, "--json"))
    return read


def test_table_has_a_line_for_each_number_of_nodes() -> None:
    lines = printed(*LINKED, "--nodes", "8,2").splitlines()
    assert (
        lines[0] == "resnet50 on imagenet; one rank: 0.3556 s for 128 images, as given; link: 10 Gbit/s, tcp, as given"
    )
    assert [line.split()[0] for line in lines[3:]] == ["2", "8"]


@pytest.mark.parametrize("model", models())
def test_every_model_can_be_predicted(model: str) -> None:
    data = "sdss" if model == "dense" else "synthetic"
    shape = ("--dataset", data, "--step-seconds", "0.2", "--link", "1gbit", "--cores", "2")
    assert len(predicted("predict", model, *shape)["forecasts"]) == 5


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_can_be_predicted(engine: str) -> None:
    found = predicted(*LINKED, "--engine", engine, "--slots", "4", "--hierarchical", "--within", "nvlink")
    assert found["options"]["engine"] == engine
    assert found["forecasts"][1]["ranks"] == 8


def test_compression_passes_and_price_change_the_forecast() -> None:
    plain = predicted(*LINKED, "--nodes", "8")["forecasts"][0]
    half = predicted(*LINKED, "--nodes", "8", "--compression", "fp16")["forecasts"][0]
    passes = predicted(*LINKED, "--nodes", "8", "--backward-passes-per-step", "4")["forecasts"][0]
    priced = predicted(*LINKED, "--nodes", "8", "--node-price", "2")["forecasts"][0]
    assert half["exposed_seconds"][0] < plain["exposed_seconds"][0]
    assert passes["efficiency"][0] > plain["efficiency"][0]
    assert priced["price"][0] == pytest.approx(16 * priced["hours"][0])
    assert plain["price"] is None


def test_best_number_of_nodes_is_named() -> None:
    assert printed(*LINKED, "--nodes", "1,2,4,8", "--deadline", "40h").splitlines()[-1].startswith("best: 4 nodes: ")
    assert predicted(*LINKED, "--nodes", "1,2,4,8", "--deadline", "1h")["best"] is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--nodes", "two"), "--nodes: two: not numbers of nodes"),
        (("--nodes", ""), "--nodes: empty"),
        (("--nodes", "0"), "--nodes: 0"),
        (("--deadline", "soon"), "--deadline: 'soon' is no duration"),
        (("--engine", "mine"), "--engine: 'mine' is unknown"),
        (("--within", "wifi"), "--within: 'wifi' is unknown"),
        (("--link", "fast"), "--link: 'fast' is no rate"),
    ],
)
def test_options_that_cannot_be_read_are_named(words: tuple[str, ...], said: str) -> None:
    assert said in refused(*LINKED, *words).message


def test_missing_profile_and_link_name_the_command_that_measures_them() -> None:
    profile = refused("predict", "resnet50", "--dataset", "imagenet", "--batch-size", "16")
    assert "`orchestrator train resnet50 --dataset imagenet --batch-size 16 --np 1 --steps 60`" in profile.hint
    link = refused(*GIVEN)
    assert "`orchestrator check` measures the link" in link.hint
    assert "only with --link" in refused(*GIVEN, "--latency", "1ms").message


def test_backtest_shows_published_beside_predicted_and_why_rows_miss() -> None:
    lines = printed("predict", "--backtest").splitlines()
    assert any("within 10 points" in line for line in lines)
    misses = [line for line in lines if line.rstrip().endswith("miss")]
    assert all(any(line.startswith(f"{miss.split('  ')[0]}: ") for line in lines) for miss in misses)
    found = json.loads(printed("predict", "--backtest", "--json"))
    assert found["near"] <= found["counted"] <= len(found["rows"])


def test_review_without_runs_says_so() -> None:
    assert printed("predict", "--review") == "no run has both a prediction and results yet\n"
    assert json.loads(printed("predict", "--review", "--json"))["runs"] == []
