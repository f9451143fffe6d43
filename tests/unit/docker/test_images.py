"""Images pulled and built by a simulated engine."""

import io
import os

import pytest

from orchestrator.docker import cluster_resources, images
from orchestrator.docker.engine import Engine
from tests.stand_ins.docker_stand_in import STALLS
from tests.unit.conftest import Connect

IMAGE = "grafana-by-hand:1"


def test_image_missing_in_a_registry_is_no_error(engine: Connect) -> None:
    assert images.pull(engine(), IMAGE, print) == "manifest unknown"


def test_build_yields_the_engines_messages(engine: Connect) -> None:
    stream = [{"stream": "Step 1/2 : FROM debian\n"}, {"aux": {"ID": "x"}}, {"error": "non-zero code: 100"}]
    docker = engine({"/build": (200, stream)})
    messages = images.build(docker, io.BytesIO(b""), "orchestrator-node:1", "node", {"BASE": "debian"})
    assert list(messages) == stream


def test_silent_registry_is_given_up(engine: Connect) -> None:
    docker = engine({"/images/create": (200, [{"status": "Pulling"}, STALLS])})
    reason = images.pull(docker, IMAGE, print, 0.2)
    assert reason.startswith("no answer for 0 s")


def test_error_during_a_pull_is_the_reason(engine: Connect) -> None:
    docker = engine({"/images/create": (200, [{"status": "Pulling"}, {"error": "disk full"}])})
    reason = images.pull(docker, IMAGE, print, 5)
    assert reason == "disk full"


def test_successful_pull_gives_no_reason(engine: Connect) -> None:
    messages: list[str] = []
    docker = engine({"/images/create": (200, [{"status": "Pulling"}, {"status": "Pulled"}])})
    assert images.pull(docker, IMAGE, messages.append, 5) == ""
    assert messages == ["Pulling", "Pulled"]


def test_users_of_one_engine_keep_each_others_export(engine: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    removed: list[str] = []

    def remove(engine: Engine, kind: str, key: str) -> None:
        removed.append(key)

    monkeypatch.setattr(cluster_resources, "remove", remove)
    docker = engine({"/containers/create": (201, [{"Id": "made"}]), "/containers/made/export": (200, ["whole"])})
    for user in (1000, 1001):
        monkeypatch.setattr(os, "getuid", lambda user=user: user)
        assert list(images.export(docker, "orchestrator-trainer:0123456789ab"))
    assert removed == [f"orchestrator-export-{user}-0123456789ab" for user in (1000, 1000, 1001, 1001)]
