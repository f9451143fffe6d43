"""The output of image builds: its log, its last lines, and errors found in it."""

from pathlib import Path

import pytest

from orchestrator.docker import context
from orchestrator.docker.context import Variant
from orchestrator.errors import CommandFailed, PreflightError
from tests.stand_ins import docker_stand_in
from tests.unit.docker.conftest import BASE, Ensure, building


def test_build_log_has_all_lines_without_colours(ensure: Ensure, tmp_path: Path) -> None:
    coloured = {"stream": "\x1b[32mdone\x1b[0m\n"}
    assert ensure(building({"stream": "Step 1/2 : FROM debian\n"}, {"aux": {"ID": "x"}}, coloured)) == context.tag(
        "node", Variant(BASE)
    )
    assert (tmp_path / "log").read_text() == "Step 1/2 : FROM debian\ndone\n"


def test_failed_build_shows_its_last_lines(ensure: Ensure, tmp_path: Path) -> None:
    with pytest.raises(CommandFailed) as caught:
        ensure(building({"stream": "E: no such package\n"}, {"error": "a non-zero code: 100"}))
    assert caught.value.tail == ["E: no such package", "a non-zero code: 100"]
    assert str(tmp_path / "log") in caught.value.hint


@pytest.mark.parametrize("reason", ["No space left on device", "disk quota exceeded"])
def test_full_disk_differs_from_a_failed_build(ensure: Ensure, reason: str) -> None:
    messages = [{"stream": f"tar: write error: {reason}\n"}, {"error": "a non-zero code: 2"}]
    with pytest.raises(PreflightError, match="is full") as caught:
        ensure(building(*messages))
    assert "docker system df" in caught.value.hint


def test_engine_lost_during_a_build_is_an_error_with_the_log(ensure: Ensure, tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="build an image") as caught:
        ensure(building({"stream": "Step 1/2 : FROM debian\n"}, docker_stand_in.TRUNCATED))
    assert caught.value.hint == f"whole log: {tmp_path / 'log'}"
    assert (tmp_path / "log").read_text() == "Step 1/2 : FROM debian\n"
