"""Images pulled and built by a simulated engine."""

import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.docker import images
from orchestrator.docker.engine import Engine
from tests.stand_ins import docker_stand_in
from tests.stand_ins.docker_stand_in import STALLS, Answers
from tests.unit.conftest import Connect

IMAGE = "grafana-by-hand:1"
USERS = (1000, 1001)


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


def test_users_of_one_engine_keep_each_others_export(monkeypatch: pytest.MonkeyPatch) -> None:
    removed: list[str] = []
    answers: Answers = {
        "/containers/create": (201, [{"Id": "made"}]),
        "/containers/made/export": (200, ["whole"]),
        **{
            f"/containers/orchestrator-export-{user}-0123456789ab/json": (200, [{"Id": f"of-{user}"}]) for user in USERS
        },
        **{f"/containers/of-{user}": (200, []) for user in USERS},
    }
    with docker_stand_in.listening(answers, removed) as host:
        monkeypatch.setenv("DOCKER_HOST", host)
        for user in USERS:
            monkeypatch.setattr(os, "getuid", lambda user=user: user)
            assert list(images.export(Engine(), "orchestrator-trainer:0123456789ab"))
    assert removed == [f"of-{user}" for user in (1000, 1000, 1001, 1001)]


@pytest.fixture
def no_helper(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[dict[str, Any]], None]:
    """Return a function that writes Docker's configuration; no credential helper is on the PATH."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))

    def write(settings: dict[str, Any]) -> None:
        (tmp_path / "config.json").write_text(json.dumps(settings))

    return write


HELPERS: list[dict[str, Any]] = [
    {"credsStore": "desktop"},
    {"credsStore": "secretservice", "auths": {"ghcr.io": {"auth": "bWU6c2VjcmV0"}}},
    {"credHelpers": {"docker.io": "gcloud", "https://index.docker.io/v1/": "gcloud"}},
]


@pytest.mark.parametrize("settings", HELPERS)
def test_images_are_built_without_a_broken_credential_helper(
    engine: Connect,
    no_helper: Callable[[dict[str, Any]], None],
    settings: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    no_helper(settings)
    docker = engine({"/build": (200, [{"stream": "done"}])})
    assert list(images.build(docker, io.BytesIO(b""), "node:1", "node", {})) == [{"stream": "done"}]
    assert "remove credsStore from ~/.docker/config.json" in capsys.readouterr().err


@pytest.mark.parametrize("settings", HELPERS)
def test_public_images_are_pulled_without_a_broken_credential_helper(
    engine: Connect, no_helper: Callable[[dict[str, Any]], None], settings: dict[str, Any]
) -> None:
    no_helper(settings)
    assert images.pull(engine({"/images/create": (200, [{"status": "Pulled"}])}), IMAGE, print) == ""


def test_credentials_in_dockers_file_are_kept_without_the_helper(
    engine: Connect, no_helper: Callable[[dict[str, Any]], None]
) -> None:
    no_helper(HELPERS[1])
    api: Any = engine()._without_helpers.api
    assert api._auth_configs.get_all_credentials()["ghcr.io"]["username"] == "me"


@pytest.mark.parametrize(("options", "network"), [([], "host"), (["name=seccomp", "name=userns"], None)])
def test_builds_share_the_hosts_network_unless_users_are_remapped(
    engine: Connect, monkeypatch: pytest.MonkeyPatch, options: list[str], network: str | None
) -> None:
    docker = engine({"/info": (200, [{"SecurityOptions": options}])})
    given: dict[str, Any] = {}
    monkeypatch.setattr(docker.client.api, "build", lambda **arguments: given.update(arguments) or [])
    list(images.build(docker, io.BytesIO(b""), "node:1", "node", {}))
    assert given["network_mode"] == network
