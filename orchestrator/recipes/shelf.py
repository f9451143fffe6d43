"""What this package's YAML files say of models and data sets."""

from functools import cache
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
DATASETS = "datasets"


@cache
def _read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((HERE / f"{name}.yaml").read_text())
    return content


def models() -> list[str]:
    return sorted(path.stem for path in HERE.glob("*.yaml") if path.stem != DATASETS)


def card(model: str) -> dict[str, Any]:
    """What the network is (input, parameters, minimum_size, expected; ``table``), and how it is trained on what."""
    return _read(model)


def datasets() -> dict[str, dict[str, Any]]:
    """By name: classes, image_size and channels; for what can be downloaded also site and files (name -> SHA-256).

    With ``table`` a sample is a row of so many ``channels`` features, not an image.
    """
    return _read(DATASETS)
