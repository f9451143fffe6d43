"""Sites of the story: their cluster.yaml, and access to their nodes by the provider's own tools."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from tests.e2e.command import CLUSTERS, docker, resources_on_engine

OPEN_PORTS = Path(__file__).parent / "scripts" / "open_ports.py"
KINDS = ("server", "port", "floating ip", "router", "network", "subnet", "security group", "keypair", "server group")


class Site(Protocol):
    """A provider, accessed by its own tools.

    ``patience`` is a factor of every timeout. The story trains ``model`` with ``train_options`` to ``accuracy``.
    ``public_ports`` are the ports of a head that accept connections from outside the nodes' network.
    """

    patience: float
    settings: str
    model: str
    train_options: Sequence[str]
    accuracy: float
    public_ports: Sequence[int]

    def list_nodes(self) -> list[str]:
        """Return the names of the story's running nodes."""

    def kill_node(self, node: str) -> None:
        """Kill ``node`` without the command's knowledge."""

    def open_ports(self, head: Mapping[str, Any], ports: Sequence[int]) -> list[int]:
        """Return those of the head's ``ports`` that accept connections from outside the nodes' network."""

    def list_resources(self) -> list[str]:
        """List all resources of the story."""


class LocalSite:
    """Containers on this machine's Docker Engine."""

    patience = 1.0
    settings = ""
    model = "lenet"
    train_options: Sequence[str] = ("--epochs", "2")
    accuracy = 0.95
    public_ports: Sequence[int] = ()  # Docker keeps its networks apart; the Engine's own machine is in all of them

    def list_nodes(self) -> list[str]:
        return sorted(docker("ps", "--filter", "label=orchestrator.cluster=e2e", "--format", "{{.Names}}"))

    def kill_node(self, node: str) -> None:
        docker("kill", node)

    def open_ports(self, head: Mapping[str, Any], ports: Sequence[int]) -> list[int]:
        """Connect from a container in another network; check first that ssh is reachable in the node's own."""
        (image,) = docker("inspect", "--format", "{{.Image}}", "e2e-head")
        asking = ["python3", "-c", OPEN_PORTS.read_text(), head["private_address"], *map(str, ports)]
        assert 22 in _listed(docker("exec", "e2e-head", *asking))
        return _listed(docker("run", "--rm", "--network", "bridge", "--entrypoint", asking[0], image, *asking[1:]))

    def list_resources(self) -> list[str]:
        return resources_on_engine()


class OpenStackSite:
    """Servers of the cloud that clouds.yaml or OS_* name; ``E2E_SETTINGS`` is a file with the keys of cluster.yaml."""

    patience = 10.0
    # The guests of a test cloud may be emulated, about 1000 times slower than a core.
    model = "lenet"
    train_options: Sequence[str] = ("--steps", "40", "--batch-size", "16")
    accuracy = 0.2  # twice the accuracy of random guesses
    public_ports: Sequence[int] = (22,)

    def __init__(self) -> None:
        self.settings = Path(os.environ["E2E_SETTINGS"]).read_text()

    def list_nodes(self) -> list[str]:
        return sorted(server["Name"] for server in self._listed("server") if server["Name"].startswith("e2e-"))

    def kill_node(self, node: str) -> None:
        self._client("server", "delete", "--wait", node)

    def open_ports(self, head: Mapping[str, Any], ports: Sequence[int]) -> list[int]:
        """Connect from this machine, which is outside."""
        address = head["public_address"] or head["private_address"]
        asking = [sys.executable, str(OPEN_PORTS), address, *map(str, ports)]
        return _listed([subprocess.run(asking, capture_output=True, text=True, check=True).stdout])

    def list_resources(self) -> list[str]:
        """List resources by name: each starts with the cluster's name, or `orchestrator-` and the cluster's name."""
        prefixes = tuple(f"{prefix}{name}-" for name in CLUSTERS for prefix in ("", "orchestrator-"))
        names = [
            (kind, str(resource.get("Name") or resource.get("Description")))
            for kind in KINDS
            for resource in self._listed(kind)
        ]
        own = [f"{kind} {name}" for kind, name in names if name.startswith(prefixes)]
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


def select_site() -> Site:
    """Return the site that ``E2E_PROVIDER`` names; default: local."""
    sites: dict[str, Callable[[], Site]] = {"local": LocalSite, "openstack": OpenStackSite}
    return sites[os.environ.get("E2E_PROVIDER", "local")]()
