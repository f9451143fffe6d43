"""The trainer's image for machines: packed by one command at a time."""

import fcntl
from pathlib import Path

import pytest

from orchestrator import state
from orchestrator.docker import context
from orchestrator.errors import PreflightError
from orchestrator.providers import trainer_image
from orchestrator.state import Record
from tests import builders, waiting
from tests.unit.conftest import Start

PREPARE = """
from orchestrator import state
from orchestrator.providers import trainer_image
state_dir = state.for_cluster("demo")
trainer_image.prepare(state.read(state_dir), state_dir)
print("done")
"""
NO_ENGINE = "unix:///nowhere/docker.sock"


@pytest.fixture
def record() -> Record:
    return builders.read_record(builders.deployed("demo"))


def test_second_deploy_waits_for_the_image_of_the_first(record: Record, start: Start, tmp_path: Path) -> None:
    path, note = trainer_image._archive(record), tmp_path / "said"
    path.parent.mkdir(parents=True)
    with path.with_name("lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        second = start("-c", PREPARE, output=note, DOCKER_HOST=NO_ENGINE)
        assert waiting.until(lambda: "Waiting for another command that packs the trainer's image" in note.read_text())
        path.touch()
    assert second.wait() == 0
    assert note.read_text().endswith("done\n")


def test_image_files_of_a_killed_deploy_are_removed(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    path = trainer_image._archive(record)
    path.parent.mkdir(parents=True)
    leftover = path.with_name(f".{path.name}.abc")
    leftover.touch()
    monkeypatch.setenv("DOCKER_HOST", NO_ENGINE)
    with pytest.raises(PreflightError):
        trainer_image.prepare(record, state.for_cluster("demo"))
    assert not leftover.exists()


def test_image_of_nodes_differs_from_the_built_image(record: Record) -> None:
    built = context.tag("trainer", trainer_image._variant(record))
    name = trainer_image.trainer(record)["trainer_image"]
    assert (name != built, name.partition(":")[2]) == (True, built.partition(":")[2])
