"""Facts and recipes of models and data sets, read from this package's YAML files."""

from functools import cache
from pathlib import Path
from typing import Any

from orchestrator.config import yaml_documents

DIRECTORY = Path(__file__).parent
DATASETS = "datasets"


@cache
def _read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml_documents.read(DIRECTORY / f"{name}.yaml")
    return content


def models() -> list[str]:
    """Return the names of all models."""
    return sorted(path.stem for path in DIRECTORY.glob("*.yaml") if path.stem != DATASETS)


def card(model: str) -> dict[str, Any]:
    """Return the network's facts (input, parameters, minimum_size, expected, ``table``) and its recipes by data set."""
    return _read(model)


def datasets() -> dict[str, dict[str, Any]]:
    """Return the facts of every data set by name: classes, image_size and channels (of a ``table``: its features).

    ``train``, ``test`` and ``bytes`` are as published, ``source`` is a description. Data sets that can be downloaded
    also have site and files (name -> SHA-256); the others have ``needs``, which says what to provide instead.
    """
    return _read(DATASETS)


def samples(dataset: str | None) -> str:
    """Return what the samples of ``dataset`` are called: "rows" or "images"."""
    return "rows" if datasets().get(dataset or "", {}).get("table") else "images"
