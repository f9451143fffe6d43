"""What becomes of a cluster when Docker Engine is restarted, and of an image build when the disk is full."""

import os
from pathlib import Path

import pytest

from orchestrator.config import Local
from orchestrator.docker import base_image, context
from orchestrator.docker.context import Variant
from tests.conftest import Missing
from tests.e2e.command import Cli, docker, left_on_engine
from tests.failures.engine import apart, beside, fill, short_directory, small_disk

BASE = Local().base_image


@pytest.fixture(autouse=True)
def root_and_image(node_image: str, missing: Missing) -> None:
    """A Docker Engine of the test's own needs root; it takes its images from the machine's engine."""
    if os.geteuid() != 0:
        missing("this needs root")


@pytest.fixture
def base_on_engine(root_and_image: None) -> str:
    """The base image on the machine's engine, pulled or made, by a name that it keeps in another engine."""
    name = base_image.substitute(BASE)
    if not docker("images", "--quiet", name):
        docker("tag", BASE, name)
    return name


def test_a_cluster_survives_a_restart_of_docker_and_is_torn_down_after_one(tmp_path: Path) -> None:
    with short_directory() as root, apart(root) as engine:
        engine.take_image(context.tag("node", Variant(BASE)))
        cli = Cli(tmp_path / "state", engine.inside)
        cli("deploy", "--nodes", "2")
        engine.stop()
        engine.start()
        cli("deploy", "--nodes", "2")
        assert cli.json("check")["expected_sum"] == 3.0
        engine.stop()
        message = cli("teardown", code=2).stderr
        assert "Docker Engine does not answer" in message
        engine.start()
        assert cli.json("teardown")["left"] == []
        assert left_on_engine() == []


def test_too_little_space_for_the_images_is_said_before_anything_is_made(tmp_path: Path, base_on_engine: str) -> None:
    with short_directory() as root, small_disk(root, "2g") as disk, beside(disk) as engine:
        engine.take_image(base_on_engine)
        cli = Cli(tmp_path / "state")
        message = cli("deploy", "--nodes", "1", code=2).stderr
        assert "is full" in message
        assert "the images need" in message
        assert left_on_engine() == []


def test_a_disk_that_fills_up_during_the_build_is_named(tmp_path: Path, base_on_engine: str) -> None:
    with short_directory() as root, small_disk(root, "9g") as disk, beside(disk) as engine:
        engine.take_image(base_on_engine)
        cli = Cli(tmp_path / "state")
        with cli.start("deploy", "--nodes", "1") as deploy:
            assert deploy.stdout
            next(line for line in deploy.stdout if "Building image" in line)
            fill(disk)
            output = deploy.communicate(timeout=300)[0]
        assert deploy.returncode == 2, output
        assert f"the disk of {disk}/data is full" in output
        assert "docker system df" in output
