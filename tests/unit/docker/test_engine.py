"""Docker Engine: unreachable, forbidden, chosen by a context, and its errors (from a stand-in on loopback)."""

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


def test_stopped_docker_is_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    dead = tmp_path / "docker.sock"
    with socket.socket(socket.AF_UNIX) as server:  # leaves the file of a socket on which no process listens
        server.bind(str(dead))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{dead}")
    with pytest.raises(PreflightError, match=f"does not answer at unix://{dead}") as caught:
        Engine()
    assert caught.value.exit_code == 2
    assert "systemctl start docker" in caught.value.hint


def test_engine_at_a_closed_port_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
    monkeypatch.setenv("DOCKER_HOST", address)
    with pytest.raises(PreflightError, match="does not answer"):
        Engine()


@pytest.fixture
def docker_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Write the configuration of a ``docker`` whose current context "gone" has been removed."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    (tmp_path / "config.json").write_text('{"currentContext": "gone"}')
    return tmp_path


@pytest.mark.parametrize(
    ("chosen", "missing_context", "remedy"),
    [("", "'gone'", "`docker context use default`"), ("typo", "'typo'", "`unset DOCKER_CONTEXT`")],
)
@pytest.mark.usefixtures("docker_settings")
def test_missing_context_is_refused_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, chosen: str, missing_context: str, remedy: str
) -> None:
    monkeypatch.setenv("DOCKER_CONTEXT", chosen)
    with pytest.raises(PreflightError, match=f"Docker has no context {missing_context}") as caught:
        Engine()
    assert caught.value.hint == remedy


def test_engine_of_the_environments_context_is_used(monkeypatch: pytest.MonkeyPatch, docker_settings: Path) -> None:
    with docker_stand_in.listening({}) as address:
        meta = docker_settings / "contexts" / "meta" / hashlib.sha256(b"lab").hexdigest() / "meta.json"
        meta.parent.mkdir(parents=True)
        meta.write_text(json.dumps({"Name": "lab", "Metadata": {}, "Endpoints": {"docker": {"Host": address}}}))
        monkeypatch.setenv("DOCKER_CONTEXT", "lab")
        assert Engine().host == address


def test_engine_reports_its_resources(engine: Connect) -> None:
    connected = engine()
    assert (connected.cpus, connected.memory, connected.data_root) == (4, 8 << 30, Path("/nowhere"))


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
def test_engine_error_is_reported_with_the_command(
    monkeypatch: pytest.MonkeyPatch, ask: Callable[[Engine], object], command: str
) -> None:
    objects = (500, [{"message": "the disk is upside down"}])
    paths = ("/containers/json", "/networks", "/images/node:1/json", "/volumes/v1", "/images/create", "/build")
    with docker_stand_in.listening(dict.fromkeys(paths, objects)) as address:
        monkeypatch.setenv("DOCKER_HOST", address)
        with pytest.raises(CommandFailed, match="the disk is upside down") as caught:
            ask(Engine())
    assert f"`{command}`" in caught.value.message
