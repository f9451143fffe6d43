"""`orchestrator models` and `orchestrator datasets`."""

import json

import pytest
from typer.testing import CliRunner

from orchestrator import recipes
from orchestrator.cli import app


def printed(*words: str) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == 0, result.output
    return result.stdout


def rows(command: str) -> dict[str, str]:
    """Return the rest of every line, by its first word, without the heading."""
    return {line.split()[0]: line for line in printed(command).splitlines()[1:]}


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("lenet", ["61,706", "28x28x1", "12 px", "99.05 %", "mnist", "LeCun et al. 1998"]),
        ("vgg16", ["138,357,544", "224x224x3", "71.6 %", "imagenet", "torchvision"]),
        ("inception_v3", ["299x299x3", "75 px", "without the auxiliary classifier"]),
        ("dense", ["4,803", "6 features", " - ", "98.9 %", "sdss"]),
    ],
)
def test_model_is_listed_with_size_and_published_results(model: str, expected: list[str]) -> None:
    listed = rows("models")
    assert set(listed) == set(recipes.models())
    assert [part for part in expected if part not in listed[model]] == []


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        ("mnist", ["images", "10", "28x28x1", "60,000", "10,000", "12 MB", "storage.googleapis.com"]),
        ("imagenet", ["1,281,167", "50,000", "--data"]),
        ("sdss", ["table", "6 features", "skyserver.sdss.org"]),
        ("synthetic", ["noise", "made up"]),
    ],
)
def test_dataset_is_listed_with_content_and_source(dataset: str, expected: list[str]) -> None:
    listed = rows("datasets")
    assert set(listed) == set(recipes.datasets())
    assert [part for part in expected if part not in listed[dataset]] == []


def test_json_has_the_same_content() -> None:
    models = {entry["model"]: entry for entry in json.loads(printed("models", "--json"))}
    assert models["resnet50"]["parameters"] == 25_557_032
    assert models["resnet50"]["expected"]["imagenet"]["top1"] == 76.4
    datasets = {entry["dataset"]: entry for entry in json.loads(printed("datasets", "--json"))}
    assert datasets["cifar10"]["sample"] == {"image_size": 32, "channels": 3}
    assert datasets["synthetic"]["train"] is None
    assert all(entry["source"] for entry in datasets.values())
