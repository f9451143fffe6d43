"""What this package's YAML files say of models and data sets."""

from functools import cache
from pathlib import Path
from typing import Any

from orchestrator import documents

HERE = Path(__file__).parent
DATASETS = "datasets"


@cache
def _read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = documents.read(HERE / f"{name}.yaml")
    return content


def models() -> list[str]:
    return sorted(path.stem for path in HERE.glob("*.yaml") if path.stem != DATASETS)


def card(model: str) -> dict[str, Any]:
    """What the network is (input, parameters, minimum_size, expected; ``table``), and how it is trained on what."""
    return _read(model)


def datasets() -> dict[str, dict[str, Any]]:
    """By name: classes, image_size and channels; of a table (``table`` is true) the channels are its features.

    ``train``, ``test`` and ``bytes`` as published, ``source`` in words. For what can be downloaded also site and files
    (name -> SHA-256), for what cannot what it ``needs`` instead.
    """
    return _read(DATASETS)


def samples(dataset: str | None) -> str:
    """What the samples of ``dataset`` are called."""
    return "rows" if datasets().get(dataset or "", {}).get("table") else "images"
