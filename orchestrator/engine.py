"""The only user of the Docker SDK: images built, and what carries our labels found and removed."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from typing import IO, Any

import docker.errors
import requests
from docker.context import ContextAPI

import docker
from orchestrator.errors import CommandFailed, PreflightError

CLUSTER_LABEL, ID_LABEL = "orchestrator.cluster", "orchestrator.id"
_NOT_RUNNING = "start Docker (`sudo systemctl start docker`), or install it: https://docs.docker.com/engine/install"
BUILD_SECONDS = 3600


@dataclass(frozen=True)
class Resource:
    """Something on the engine that carries our labels."""

    kind: str
    name: str
    cluster: str
    id: str
    key: str
    running: bool = True


class Engine:
    """A connection to the Docker Engine that the ``docker`` command would use."""

    def __init__(self) -> None:
        """Raises PreflightError where it does not answer, with the remedy."""
        self.host = os.environ.get("DOCKER_HOST") or ContextAPI.get_current_context().Host
        try:
            self.client = docker.DockerClient(base_url=self.host, timeout=BUILD_SECONDS)
            self.facts: dict[str, Any] = self.client.info()
        except (docker.errors.DockerException, requests.RequestException) as error:
            denied = "Permission denied" in str(error)
            hint = "join the group docker (`sudo usermod -aG docker $USER`), log in again" if denied else _NOT_RUNNING
            raise PreflightError(f"Docker Engine does not answer at {self.host}", hint) from error

    @property
    def cpus(self) -> int:
        return int(self.facts["NCPU"])

    @property
    def memory(self) -> int:
        """Bytes."""
        return int(self.facts["MemTotal"])

    @property
    def data_root(self) -> Path:
        return Path(self.facts["DockerRootDir"])

    def has_image(self, tag: str) -> bool:
        return bool(self.client.images.list(name=tag))

    def pull(self, tag: str) -> bool:
        """Whether ``tag`` could be pulled from its registry."""
        try:
            self.client.images.pull(tag)
        except (docker.errors.APIError, docker.errors.ImageNotFound):
            return False
        return True

    def load_root_filesystem(self, archive: IO[bytes], tag: str) -> None:
        """Make image ``tag`` of one layer out of a tar archive."""
        repository, _, version = tag.partition(":")
        self.client.api.import_image_from_data(archive.read(), repository=repository, tag=version)

    def build(
        self, context: IO[bytes], tag: str, target: str, arguments: Mapping[str, str]
    ) -> Iterator[dict[str, Any]]:
        """Build ``target`` of the Dockerfile in the tar archive ``context``.

        Gives the engine's messages as they come, with the key "stream" or "error"; closing it ends the build.
        """
        stream: Iterator[dict[str, Any]] = self.client.api.build(
            fileobj=context,
            custom_context=True,
            tag=tag,
            target=target,
            buildargs=dict(arguments),
            network_mode="host",  # a proxy on this machine's localhost, and its MTU, hold in the build too
            rm=True,
            forcerm=True,
            decode=True,
            labels={ID_LABEL: "image"},
        )
        return stream

    def owned(self) -> list[Resource]:
        """Every container, network and volume that carries our labels, of any cluster."""
        api, label = self.client.api, {"label": CLUSTER_LABEL}
        containers = api.containers(all=True, filters=label)
        networks = api.networks(filters=label)
        volumes = api.volumes(filters=label)["Volumes"] or []
        return [
            *(
                _resource("container", c["Names"][0][1:], c["Labels"], c["Id"], c["State"] == "running")
                for c in containers
            ),
            *(_resource("network", n["Name"], n["Labels"], n["Id"]) for n in networks),
            *(_resource("volume", v["Name"], v["Labels"], v["Name"]) for v in volumes),
        ]

    def remove(self, kind: str, key: str) -> None:
        """Remove it; gone already is fine."""
        try:
            if kind == "container":
                self.client.containers.get(key).remove(force=True, v=True)
            elif kind == "network":
                self.client.networks.get(key).remove()
            else:
                self.client.volumes.get(key).remove(force=True)
        except docker.errors.NotFound:
            pass
        except docker.errors.APIError as error:
            raise CommandFailed(f"remove {kind}", ["docker", kind, "rm", key], str(error.explanation), []) from error

    def subnets(self) -> list[IPv4Network]:
        """IPv4 networks that the engine has given away."""
        configs = [c for n in self.client.networks.list() for c in (n.attrs["IPAM"].get("Config") or [])]
        return [IPv4Network(c["Subnet"]) for c in configs if ":" not in c.get("Subnet", ":")]


def _resource(kind: str, name: str, labels: Mapping[str, str], key: str, running: bool = True) -> Resource:
    return Resource(kind, name, labels[CLUSTER_LABEL], labels.get(ID_LABEL, ""), key, running)
