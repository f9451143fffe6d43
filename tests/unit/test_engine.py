"""Docker Engine: gone, forbidden, and what it says of resources and builds (by a stand-in that listens on loopback)."""

import io
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from orchestrator.engine import Engine, Resource
from orchestrator.errors import PreflightError
from tests.unit import docker_stand_in

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
        Resource("container", "demo-head", "demo", "1a2b", "c1", running=True),
        Resource("container", "demo-worker-0", "demo", "1a2b", "c2", running=False),
        Resource("network", "demo-network", "demo", "1a2b", "n1"),
        Resource("volume", "demo-shared", "demo", "", "demo-shared"),
    ]


def test_ipv4_networks_are_known_and_others_read_over(engine: Connect) -> None:
    configs = [[{"Subnet": "10.201.0.0/24"}], [{"Subnet": "fd00::/64"}, {"Subnet": "172.17.0.0/16"}], None]
    networks = [{"Id": str(number), "IPAM": {"Config": config}} for number, config in enumerate(configs)]
    assert engine({"/networks": [networks]}).subnets() == [IPv4Network("10.201.0.0/24"), IPv4Network("172.17.0.0/16")]


def test_a_build_gives_the_engines_messages_as_they_come(engine: Connect) -> None:
    said = [{"stream": "Step 1/2 : FROM debian\n"}, {"aux": {"ID": "x"}}, {"error": "non-zero code: 100"}]
    messages = engine({"/build": said}).build(io.BytesIO(b""), "orchestrator-node:1", "node", {"BASE": "debian"})
    assert list(messages) == said
