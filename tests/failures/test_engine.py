"""Clusters survive a restart of Docker Engine, and image builds report a full disk."""

import os
from pathlib import Path

import pytest

from orchestrator.config import Local
from orchestrator.docker import base_image, context
from orchestrator.docker.context import Variant
from tests.conftest import Missing
from tests.e2e.command import Cli, docker, resources_on_engine
from tests.failures.engine import engine_on_host_network, fill, isolated_engine, short_directory, small_disk

BASE = Local().base_image


@pytest.fixture(autouse=True)
def root_and_image(node_image: str, missing: Missing) -> None:
    """Require root for a private Docker Engine, which copies its images from the machine's engine."""
    if os.geteuid() != 0:
        missing("this needs root")


@pytest.fixture
def base_on_engine(root_and_image: None) -> str:
    """Return a tag of the base image on the machine's engine that stays valid in the private one."""
    name = base_image.substitute(BASE)
    if not docker("images", "--quiet", name):
        docker("tag", BASE, name)
    return name


def test_cluster_survives_docker_restarts_and_is_torn_down(tmp_path: Path) -> None:
    with short_directory() as root, isolated_engine(root) as engine:
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
        assert resources_on_engine() == []


def test_too_little_disk_space_is_refused_before_building(tmp_path: Path, base_on_engine: str) -> None:
    with short_directory() as root, small_disk(root, "2g") as disk, engine_on_host_network(disk) as engine:
        engine.take_image(base_on_engine)
        cli = Cli(tmp_path / "state")
        message = cli("deploy", "--nodes", "1", code=2).stderr
        assert "is full" in message
        assert "the images need" in message
        assert resources_on_engine() == []


def test_disk_full_during_build_is_named(tmp_path: Path, base_on_engine: str) -> None:
    with short_directory() as root, small_disk(root, "9g") as disk, engine_on_host_network(disk) as engine:
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
