"""The file that predictions read networks from, beside the networks."""

import json
from pathlib import Path

import pytest

import orchestrator
from orchestrator.trainer import models
from scripts import networks

FILE = Path(orchestrator.__file__).with_name("networks.json")  # mounted there (tests/worker_side)


def test_file_has_every_network() -> None:
    assert set(json.loads(FILE.read_text())) == {*models.IMAGES, *models.TABLES}


@pytest.mark.parametrize("name", ["lenet", "resnet20", "mobilenet_v2", "dense"])
def test_file_says_what_is_built(name: str) -> None:
    """The command that makes the file again: python -m scripts.networks, inside the image."""
    assert json.loads(FILE.read_text())[name] == networks.network(name)
