"""Docker Engine: gone, forbidden, and what it says of resources and builds (by a stand-in that listens on loopback)."""

import hashlib
import io
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from orchestrator.docker.engine import Engine, Holding, Network
from orchestrator.errors import CommandFailed, PreflightError
from tests.stand_ins import docker_stand_in

Connect = Callable[..., Engine]


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Connect]:
    """A connection to an engine that gives these answers: path -> JSON documents."""
    with ExitStack() as stack:

        def connect(answers: dict[str, list[Any]] | None = None) -> Engine:
            given = {path: (200, documents) for path, documents in (answers or {}).items()}
            monkeypatch.setenv("DOCKER_HOST", stack.enter_context(docker_stand_in.listening(given)))
            return Engine()

        yield connect


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
    found = engine()
    assert (found.cpus, found.memory, found.data_root) == (4, 8 << 30, Path("/nowhere"))


def test_an_engine_without_anything_of_ours_owns_nothing(engine: Connect) -> None:
    assert engine().owned() == []


def test_everything_that_carries_our_labels_is_found(engine: Connect) -> None:
    labels = {"orchestrator.cluster": "demo", "orchestrator.id": "1a2b"}
    containers = [
        {"Id": "c1", "Names": ["/demo-head"], "Labels": labels, "State": "running"},
        {"Id": "c2", "Names": ["/demo-worker-0"], "Labels": labels, "State": "exited"},
    ]
    found = engine(
        {
            "/containers/json": [containers],
            "/networks": [[{"Id": "n1", "Name": "demo-network", "Labels": labels}]],
            "/volumes": [{"Volumes": [{"Name": "demo-shared", "Labels": {"orchestrator.cluster": "demo"}}]}],
        }
    ).owned()
    assert found == [
        Holding("container", "demo-head", "c1", "demo", "1a2b", running=True),
        Holding("container", "demo-worker-0", "c2", "demo", "1a2b", running=False),
        Holding("network", "demo-network", "n1", "demo", "1a2b"),
        Holding("volume", "demo-shared", "demo-shared", "demo", ""),
    ]


def test_ipv4_networks_are_known_with_their_owner_and_others_read_over(engine: Connect) -> None:
    configs = [[{"Subnet": "10.201.0.0/24"}], [{"Subnet": "fd00::/64"}, {"Subnet": "172.17.0.0/16"}], None]
    labels = [{"orchestrator.id": "1a2b"}, {}, None]
    networks = [
        {"Id": str(number), "Name": f"net-{number}", "Labels": labels[number], "IPAM": {"Config": configs[number]}}
        for number in range(3)
    ]
    assert engine({"/networks": [networks]}).networks() == [
        Network("net-0", "1a2b", IPv4Network("10.201.0.0/24")),
        Network("net-1", "", IPv4Network("172.17.0.0/16")),
    ]


@pytest.mark.parametrize(
    ("ask", "command"),
    [
        (lambda engine: engine.owned(), "docker ps"),
        (lambda engine: engine.networks(), "docker network ls"),
        (lambda engine: engine.has_image("node:1"), "docker image inspect node:1"),
        (lambda engine: engine.remove("volume", "v1"), "docker volume rm v1"),
        (lambda engine: engine.load_root_filesystem(io.BytesIO(b"tar"), "base:1"), "docker import - base:1"),
        (lambda engine: list(engine.build(io.BytesIO(b""), "node:1", "node", {})), "docker build --tag node:1"),
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


def test_a_registry_that_does_not_have_an_image_is_no_error(engine: Connect) -> None:
    assert not engine().pull("debian:12-slim")


def test_a_build_gives_the_engines_messages_as_they_come(engine: Connect) -> None:
    said = [{"stream": "Step 1/2 : FROM debian\n"}, {"aux": {"ID": "x"}}, {"error": "non-zero code: 100"}]
    messages = engine({"/build": said}).build(io.BytesIO(b""), "orchestrator-node:1", "node", {"BASE": "debian"})
    assert list(messages) == said
