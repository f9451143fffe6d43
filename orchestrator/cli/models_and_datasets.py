"""Commands that list the models and data sets available for training."""

from typing import Any

import typer

from orchestrator import recipes
from orchestrator.cli import output
from orchestrator.cli.options import Json
from orchestrator.cli.output import NOTHING, shown


def register(app: typer.Typer) -> None:
    app.command(name="models")(list_models)
    app.command(name="datasets")(list_datasets)


def list_models(json: Json = False) -> None:
    """List the models: parameters, input, and the accuracy to expect, with its source."""
    models = [_model(name) for name in recipes.models()]
    if json:
        return output.as_json(models)
    output.table(
        ("model", "parameters", "input", "at least", "top-1", "of", "according to"),
        [
            (m["model"], f"{m['parameters']:,}", _shape(m["input"]), _pixels(m), f"{accuracy['top1']:g} %", dataset,
             accuracy["source"])
            for m in models
            for dataset, accuracy in m["expected"].items()
        ],
    )  # fmt: skip


def list_datasets(json: Json = False) -> None:
    """List the data sets: their contents and their sources."""
    datasets = [_dataset(name) for name in recipes.datasets()]
    if json:
        return output.as_json(datasets)
    output.table(
        ("data set", "kind", "classes", "sample", "training", "test", "download", "from"),
        [
            (d["dataset"], d["kind"], d["classes"], _shape(d["sample"]), _count(d["train"]), _count(d["test"]),
             shown(d["bytes"], lambda b: f"{b / 1e6:,.0f} MB"), d["source"])
            for d in datasets
        ],
    )  # fmt: skip


def _model(name: str) -> dict[str, Any]:
    card = recipes.card(name)
    facts = {key: card[key] for key in ("parameters", "input", "minimum_size", "expected")}
    return {"model": name, **facts, "recipe": recipes.DIRECTORY / f"{name}.yaml"}


def _dataset(name: str) -> dict[str, Any]:
    dataset = recipes.datasets()[name]
    kind = "table" if dataset.get("table") else "noise" if name == "synthetic" else "images"
    sample = {key: dataset[key] for key in ("image_size", "channels")}
    counts = {key: dataset.get(key) for key in ("train", "test", "bytes", "source")}
    return {"dataset": name, "kind": kind, "classes": dataset["classes"], "sample": sample, **counts}


def _shape(of: dict[str, int]) -> str:
    """Return pixels and channels of an image, or the number of features of a row."""
    size, channels = of["image_size"], of["channels"]
    return f"{size}x{size}x{channels}" if size > 1 else f"{channels} features"


def _pixels(model: dict[str, Any]) -> str:
    return f"{model['minimum_size']} px" if model["minimum_size"] > 1 else NOTHING


def _count(value: int | None) -> str:
    return shown(value, "{:,}".format)
