"""Docker Engine: gone, forbidden, chosen by a context, and its errors (by a stand-in that listens on loopback)."""

import hashlib
import io
import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.docker import cluster_resources, images
from orchestrator.docker.engine import Engine
from orchestrator.errors import CommandFailed, PreflightError
from tests.stand_ins import docker_stand_in
from tests.unit.conftest import Connect


def test_docker_that_does_not_run_is_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    dead = tmp_path / "docker.sock"
    with socket.socket(socket.AF_UNIX) as server:  # leaves the file of a socket that no one listens at
        server.bind(str(dead))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{dead}")
    with pytest.raises(PreflightError, match=f"does not answer at unix://{dead}") as caught:
        Engine()
    assert caught.value.exit_code == 2
    assert "systemctl start docker" in caught.value.hint


def test_an_engine_at_a_port_that_no_one_listens_at_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
    monkeypatch.setenv("DOCKER_HOST", address)
    with pytest.raises(PreflightError, match="does not answer"):
        Engine()


@pytest.fixture
def docker_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The configuration of a ``docker`` whose current context, made and removed later, is called gone."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    (tmp_path / "config.json").write_text('{"currentContext": "gone"}')
    return tmp_path


@pytest.mark.parametrize(
    ("chosen", "lack", "remedy"),
    [("", "'gone'", "`docker context use default`"), ("typo", "'typo'", "`unset DOCKER_CONTEXT`")],
)
@pytest.mark.usefixtures("docker_settings")
def test_a_context_that_is_not_there_is_refused_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, chosen: str, lack: str, remedy: str
) -> None:
    monkeypatch.setenv("DOCKER_CONTEXT", chosen)
    with pytest.raises(PreflightError, match=f"Docker has no context {lack}") as caught:
        Engine()
    assert caught.value.hint == remedy


def test_the_engine_of_the_context_in_the_environment_is_asked(
    monkeypatch: pytest.MonkeyPatch, docker_settings: Path
) -> None:
    with docker_stand_in.listening({}) as address:
        meta = docker_settings / "contexts" / "meta" / hashlib.sha256(b"lab").hexdigest() / "meta.json"
        meta.parent.mkdir(parents=True)
        meta.write_text(json.dumps({"Name": "lab", "Metadata": {}, "Endpoints": {"docker": {"Host": address}}}))
        monkeypatch.setenv("DOCKER_CONTEXT", "lab")
        assert Engine().host == address


def test_an_engine_says_what_it_has(engine: Connect) -> None:
    answered = engine()
    assert (answered.cpus, answered.memory, answered.data_root) == (4, 8 << 30, Path("/nowhere"))


@pytest.mark.parametrize(
    ("ask", "command"),
    [
        (cluster_resources.owned, "docker ps"),
        (cluster_resources.networks, "docker network ls"),
        (lambda engine: images.find(engine, "node:1"), "docker image inspect node:1"),
        (lambda engine: cluster_resources.remove(engine, "volume", "v1"), "docker volume rm v1"),
        (lambda engine: images.load_root_filesystem(engine, io.BytesIO(b"tar"), "base:1"), "docker import - base:1"),
        (lambda engine: list(images.build(engine, io.BytesIO(b""), "node:1", "node", {})), "docker build --tag node:1"),
    ],
)
def test_what_the_engine_objects_is_said_with_the_command_it_objects_to(
    monkeypatch: pytest.MonkeyPatch, ask: Callable[[Engine], object], command: str
) -> None:
    objects = (500, [{"message": "the disk is upside down"}])
    paths = ("/containers/json", "/networks", "/images/node:1/json", "/volumes/v1", "/images/create", "/build")
    with docker_stand_in.listening(dict.fromkeys(paths, objects)) as address:
        monkeypatch.setenv("DOCKER_HOST", address)
        with pytest.raises(CommandFailed, match="the disk is upside down") as caught:
            ask(Engine())
    assert f"`{command}`" in caught.value.message
