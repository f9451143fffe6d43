"""Where the story takes place: what stands in cluster.yaml there, and what is seen and done behind our back."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from tests.e2e.command import OURS, docker, left_on_engine

ANSWERING = Path(__file__).parent / "scripts" / "answering.py"
KINDS = ("server", "port", "floating ip", "router", "network", "subnet", "security group", "keypair", "server group")


class Site(Protocol):
    """A provider, asked by its own tools.

    ``patience`` multiplies every deadline; the story trains ``model`` to this ``extent``, which gives ``accuracy``.
    ``entrances`` are the ports of a head that answer who is outside the nodes' network.
    """

    patience: float
    settings: str
    model: str
    extent: Sequence[str]
    accuracy: float
    entrances: Sequence[int]

    def nodes(self) -> list[str]:
        """Names of the story's nodes that stand there."""

    def lose(self, node: str) -> None:
        """Make an end of ``node`` without telling anyone."""

    def answering(self, head: Mapping[str, Any], ports: Sequence[int]) -> list[int]:
        """Those of its ``ports`` that answer who is outside the nodes' network."""

    def left(self) -> list[str]:
        """Whatever of the story is there."""


class LocalSite:
    """Containers on this machine's Docker Engine."""

    patience = 1.0
    settings = ""
    model = "lenet"
    extent: Sequence[str] = ("--epochs", "2")
    accuracy = 0.95
    entrances: Sequence[int] = ()  # Docker keeps its networks apart; the Engine's own machine is in all of them

    def nodes(self) -> list[str]:
        return sorted(docker("ps", "--filter", "label=orchestrator.cluster=e2e", "--format", "{{.Names}}"))

    def lose(self, node: str) -> None:
        docker("kill", node)

    def answering(self, head: Mapping[str, Any], ports: Sequence[int]) -> list[int]:
        """Asked from a container in another network; in the node's own, ssh answers it."""
        (image,) = docker("inspect", "--format", "{{.Image}}", "e2e-head")
        asking = ["python3", "-c", ANSWERING.read_text(), head["private_address"], *map(str, ports)]
        assert 22 in _listed(docker("exec", "e2e-head", *asking))
        return _listed(docker("run", "--rm", "--network", "bridge", "--entrypoint", asking[0], image, *asking[1:]))

    def left(self) -> list[str]:
        return left_on_engine()


class OpenStackSite:
    """Servers of the cloud that clouds.yaml or OS_* name; ``E2E_SETTINGS`` is a file with the keys of cluster.yaml."""

    patience = 10.0
    # The guests of a test cloud may be emulated, and take minutes for what a core does in a tenth of a second.
    model = "lenet"
    extent: Sequence[str] = ("--steps", "40", "--batch-size", "16")
    accuracy = 0.2  # twice what guessing gives
    entrances: Sequence[int] = (22,)

    def __init__(self) -> None:
        self.settings = Path(os.environ["E2E_SETTINGS"]).read_text()

    def nodes(self) -> list[str]:
        return sorted(server["Name"] for server in self._listed("server") if server["Name"].startswith("e2e-"))

    def lose(self, node: str) -> None:
        self._client("server", "delete", "--wait", node)

    def answering(self, head: Mapping[str, Any], ports: Sequence[int]) -> list[int]:
        """Asked from this machine, which is outside."""
        address = head["public_address"] or head["private_address"]
        asking = [sys.executable, str(ANSWERING), address, *map(str, ports)]
        return _listed([subprocess.run(asking, capture_output=True, text=True, check=True).stdout])

    def left(self) -> list[str]:
        """By name: every one of ours begins with the cluster's, or with `orchestrator-` and the cluster's."""
        ours = tuple(f"{prefix}{name}-" for name in OURS for prefix in ("", "orchestrator-"))
        names = [
            (kind, str(resource.get("Name") or resource.get("Description")))
            for kind in KINDS
            for resource in self._listed(kind)
        ]
        own = [f"{kind} {name}" for kind, name in names if name.startswith(ours)]
        routers = [name.removeprefix("router ") for name in own if name.startswith("router ")]
        return own + [f"interface of {router}" for router in routers for _ in self._interfaces(router)]

    def _interfaces(self, router: str) -> list[dict[str, Any]]:
        of_router = ("--router", router, "--device-owner", "network:router_interface")
        ports: list[dict[str, Any]] = json.loads(self._client("port", "list", *of_router, "--format", "json"))
        return ports

    def _listed(self, kind: str) -> list[dict[str, Any]]:
        long = ["--long"] if kind == "floating ip" else []
        resources: list[dict[str, Any]] = json.loads(self._client(*kind.split(), "list", *long, "--format", "json"))
        return resources

    def _client(self, *argv: str) -> str:
        return subprocess.run(["openstack", *argv], capture_output=True, text=True, check=True).stdout


def _listed(lines: Sequence[str]) -> list[int]:
    numbers: list[int] = json.loads("".join(lines))
    return numbers


def chosen() -> Site:
    """The site that ``E2E_PROVIDER`` names; default: local."""
    every: dict[str, Callable[[], Site]] = {"local": LocalSite, "openstack": OpenStackSite}
    return every[os.environ.get("E2E_PROVIDER", "local")]()
