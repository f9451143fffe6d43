"""Images pulled and built by an engine that a stand-in simulates."""

import io

from orchestrator.docker import images
from tests.stand_ins.docker_stand_in import STALLS
from tests.unit.conftest import Connect

IMAGE = "grafana-by-hand:1"


def test_a_registry_that_does_not_have_an_image_is_no_error(engine: Connect) -> None:
    assert images.pull(engine(), IMAGE, print) == "manifest unknown"


def test_a_build_gives_the_engines_messages_as_they_come(engine: Connect) -> None:
    stream = [{"stream": "Step 1/2 : FROM debian\n"}, {"aux": {"ID": "x"}}, {"error": "non-zero code: 100"}]
    docker = engine({"/build": (200, stream)})
    messages = images.build(docker, io.BytesIO(b""), "orchestrator-node:1", "node", {"BASE": "debian"})
    assert list(messages) == stream


def test_a_registry_that_does_not_answer_is_given_up(engine: Connect) -> None:
    docker = engine({"/images/create": (200, [{"status": "Pulling"}, STALLS])})
    reason = images.pull(docker, IMAGE, print, 0.2)
    assert reason.startswith("no answer for 0 s")


def test_an_error_in_the_middle_of_a_pull_is_the_reason(engine: Connect) -> None:
    docker = engine({"/images/create": (200, [{"status": "Pulling"}, {"error": "disk full"}])})
    reason = images.pull(docker, IMAGE, print, 5)
    assert reason == "disk full"


def test_a_pull_that_ends_gives_no_reason(engine: Connect) -> None:
    heard: list[str] = []
    docker = engine({"/images/create": (200, [{"status": "Pulling"}, {"status": "Pulled"}])})
    assert images.pull(docker, IMAGE, heard.append, 5) == ""
    assert heard == ["Pulling", "Pulled"]
