"""networks.json, which predictions read, equals the networks."""

import json
from pathlib import Path

import pytest

import orchestrator
from orchestrator.trainer.models import networks_by_name
from scripts import write_networks

FILE = Path(orchestrator.__file__).with_name("networks.json")  # mounted there (tests/tests_in_image.py)


def test_file_has_every_network() -> None:
    assert set(json.loads(FILE.read_text())) == {*networks_by_name.IMAGES, *networks_by_name.TABLES}


@pytest.mark.parametrize("name", ["lenet", "resnet20", "mobilenet_v2", "dense"])
def test_file_equals_the_built_networks(name: str) -> None:
    """Write the file again with: python -m scripts.write_networks, inside the image."""
    assert json.loads(FILE.read_text())[name] == write_networks.network(name)
