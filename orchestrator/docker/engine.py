"""Client of the Docker Engine: build images, find and remove labelled resources; the only user of Docker's SDK."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Network
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from orchestrator.docker import silence
from orchestrator.errors import CommandFailed, PreflightError
from orchestrator.lazy import LazyModule
from orchestrator.schema.bounded import shown

if TYPE_CHECKING:
    import docker.context.config
    import docker.errors
    import requests
    import urllib3

    import docker
else:
    docker, requests, urllib3 = LazyModule("docker"), LazyModule("requests"), LazyModule("urllib3")

CLUSTER_LABEL, ID_LABEL = "orchestrator.cluster", "orchestrator.id"
_NOT_RUNNING = "start Docker (`sudo systemctl start docker`), or install it: https://docs.docker.com/engine/install"
ANSWER_SECONDS, BUILD_SECONDS = 60, 3600


@dataclass(frozen=True)
class Holding:
    """A resource of deployment ``id`` of ``cluster``; ``running`` applies to containers only."""

    kind: str
    name: str
    key: str
    cluster: str
    id: str
    running: bool = True


@dataclass(frozen=True)
class Network:
    """An IPv4 network of the engine; ``id`` is that of its deployment, "" for networks without the project's label."""

    name: str
    id: str
    subnet: IPv4Network


class Engine:
    """A connection to the Docker Engine that the ``docker`` command would use."""

    def __init__(self) -> None:
        """Connect. Raises PreflightError, with the remedy, if the engine does not answer."""
        try:
            self.host = os.environ.get("DOCKER_HOST") or _host_of_context(os.environ.get("DOCKER_CONTEXT"))
            self.client = docker.DockerClient(base_url=self.host, timeout=ANSWER_SECONDS)
            self.facts: dict[str, Any] = self.client.info()
        except (docker.errors.DockerException, requests.RequestException) as error:
            denied = "Permission denied" in str(error)
            hint = "join the group docker (`sudo usermod -aG docker $USER`), log in again" if denied else _NOT_RUNNING
            host = getattr(self, "host", "the address of Docker's context")
            raise PreflightError(f"Docker Engine does not answer at {host}", hint) from error
        except PreflightError:
            raise
        except Exception as error:  # the SDK checks neither addresses nor Docker's own files
            reason = shown(str(error))
            hint = "check DOCKER_HOST, DOCKER_CONTEXT, and config.json and contexts in ~/.docker (or $DOCKER_CONFIG)"
            raise PreflightError(f"Docker's settings cannot be used: {type(error).__name__}: {reason}", hint) from error

    @property
    def is_here(self) -> bool:
        """Tell whether the engine listens on a socket of this machine."""
        return str(self.host).startswith(("unix:", "http+unix:"))

    @property
    def cpus(self) -> int:
        """Return the number of the engine's CPUs."""
        return int(self.facts["NCPU"])

    @property
    def memory(self) -> int:
        """Return the engine's memory in bytes."""
        return int(self.facts["MemTotal"])

    @property
    def cgroup_version(self) -> int:
        """Return 1 or 2; engines before 20.10 support only version 1 and do not report it."""
        return int(self.facts.get("CgroupVersion", 1))

    @property
    def cgroup_driver(self) -> str:
        """Return ``systemd`` or ``cgroupfs``."""
        return str(self.facts.get("CgroupDriver", "cgroupfs"))

    @property
    def data_root(self) -> Path:
        """Return the directory of the engine's data on its machine."""
        return Path(self.facts["DockerRootDir"])

    @cached_property
    def patient(self) -> "docker.DockerClient":
        """Return a client for requests that take long and are silent meanwhile."""
        return docker.DockerClient(base_url=self.host, timeout=BUILD_SECONDS)

    def has_image(self, name: str) -> bool:
        """Tell whether the engine has image ``name``: NAME:TAG, or NAME@sha256:DIGEST if pulled by that digest."""
        return self.image_id(name) is not None

    def image_id(self, reference: str) -> str | None:
        """Return the id of the image with that name, tag or digest; None if the engine does not have it."""
        with _asking("look for an image", "image", "inspect", reference):
            try:
                return str(self.client.images.get(reference).id)
            except docker.errors.NotFound:
                return None

    def fetch(self, reference: str, on_status: Callable[[str], None], seconds: float) -> str:
        """Pull an image.

        Args:
            reference: Name of the image with tag or digest.
            on_status: Called with each status message.
            seconds: Longest silence of the registry.

        Returns:
            The reason of a failure; "" after success.
        """

        def silent(passed: float) -> None:
            raise TimeoutError(f"no answer for {passed:.0f} s")

        try:
            messages = self.client.api.pull(reference, stream=True, decode=True)
            for message in silence.with_silence_timeout(messages, seconds, silent):
                if "error" in message:
                    return str(message["error"])
                on_status(message.get("status", ""))
        except (docker.errors.DockerException, urllib3.exceptions.HTTPError, OSError) as error:
            return str(getattr(error, "explanation", None) or error)
        return ""

    def pull(self, tag: str) -> bool:
        """Pull ``tag`` and tell whether that succeeded; the engine checks a digest in it."""
        with _asking("pull an image", "pull", tag):
            try:
                self.patient.images.pull(tag)
            except docker.errors.APIError:  # the registry refuses or does not answer
                return False
        return True

    def load_root_filesystem(self, archive: IO[bytes], tag: str) -> None:
        """Create image ``tag`` with one layer from a tar archive."""
        repository, _, version = tag.partition(":")
        with _asking("import an image", "import", "-", tag):
            self.patient.api.import_image_from_data(archive.read(), repository=repository, tag=version)

    def build(
        self,
        context: IO[bytes],
        tag: str,
        target: str | None,
        arguments: Mapping[str, str],
        dockerfile: str = "Dockerfile",
    ) -> Iterator[dict[str, Any]]:
        """Build an image; closing the iterator ends the build.

        Args:
            context: Build context, a tar archive with the Dockerfile.
            tag: Tag of the image.
            target: Target in the Dockerfile; None for its last stage.
            arguments: Build arguments by name.
            dockerfile: Name of the Dockerfile in the context.

        Yields:
            The engine's messages, with the key "stream" or "error".

        Raises:
            CommandFailed: The engine, or the connection to it, fails.
        """
        with _asking("build an image", "build", "--tag", tag):
            yield from self.client.api.build(
                fileobj=context,
                custom_context=True,
                tag=tag,
                target=target,
                dockerfile=dockerfile,
                buildargs=dict(arguments),
                network_mode="host",  # for this machine's MTU, and a proxy on its localhost
                rm=True,
                forcerm=True,
                decode=True,
                labels={ID_LABEL: "image"},
                timeout=BUILD_SECONDS,
            )

    def export(self, tag: str) -> Iterator[bytes]:
        """Yield the files of image ``tag`` as pieces of a tar archive for `docker import`.

        The archive is unpacked once; that of `docker save` is first written to disk and then unpacked from there.
        """
        name = f"orchestrator-export-{tag.partition(':')[2]}"
        self.remove("container", name)  # left by a killed command
        with _asking("export an image", "create", tag):
            container = self.client.api.create_container(tag, ["true"], name=name)
        try:
            with _asking("export an image", "export", name):
                yield from self.patient.api.export(container["Id"])
        finally:
            self.remove("container", name)

    def owned(self) -> list[Holding]:
        """List every container, network and volume with the project's labels, of any cluster."""
        api, label = self.client.api, {"label": CLUSTER_LABEL}
        with _asking("list resources of this project", "ps"):
            containers = api.containers(all=True, filters=label)
            running = {c["Id"]: c["State"] == "running" and self._is_connected(c) for c in containers}
            networks = api.networks(filters=label)
            volumes = api.volumes(filters=label)["Volumes"] or []
        return [
            *(_holding("container", c["Names"][0][1:], c["Id"], c["Labels"], running[c["Id"]]) for c in containers),
            *(_holding("network", n["Name"], n["Id"], n["Labels"]) for n in networks),
            *(_holding("volume", v["Name"], v["Name"], v["Labels"]) for v in volumes),
        ]

    def _is_connected(self, container: Mapping[str, Any]) -> bool:
        """Tell whether a container in another one's network still has it: a restart of that one makes a new network."""
        kind, _, other = container.get("HostConfig", {}).get("NetworkMode", "").partition(":")
        return kind != "container" or self._started(other) < self._started(container["Id"])

    def _started(self, key: str) -> str:
        """Return the last start of a container in a form that sorts; "~", which sorts last, without a container."""
        try:
            return str(self.client.api.inspect_container(key)["State"]["StartedAt"]).rstrip("Z")
        except docker.errors.NotFound:
            return "~"

    def remove(self, kind: str, key: str) -> None:
        """Remove a container, network or volume; do nothing if it is gone."""
        with _asking(f"remove {kind}", kind, "rm", key):
            try:
                if kind == "container":
                    self.client.containers.get(key).remove(force=True, v=True)
                elif kind == "network":
                    self.client.networks.get(key).remove()
                else:
                    self.client.volumes.get(key).remove(force=True)
            except docker.errors.NotFound:
                pass

    def networks(self) -> list[Network]:
        """List the IPv4 networks of the engine, one entry per subnet."""
        with _asking("list networks", "network", "ls"):
            listed = self.client.networks.list()
        return [
            Network(n.attrs["Name"], (n.attrs.get("Labels") or {}).get(ID_LABEL, ""), IPv4Network(c["Subnet"], False))
            for n in listed
            for c in n.attrs["IPAM"].get("Config") or []
            if ":" not in c.get("Subnet", ":")
        ]


def _host_of_context(name: str | None) -> str:
    """Return the engine's address in Docker's context ``name`` (default: the current one). Raises PreflightError."""
    context = docker.context.ContextAPI.get_context(name)
    if context is None:
        remedy = "`unset DOCKER_CONTEXT`" if name else "`docker context use default`"
        missing = name or docker.context.config.get_current_context_name()
        raise PreflightError(f"Docker has no context {missing!r}", remedy)
    return str(context.Host)


@contextmanager
def _asking(step: str, *words: str) -> Iterator[None]:
    """Turn errors of the engine or its connection into CommandFailed, with the step and the docker command."""
    try:
        yield
    except (docker.errors.DockerException, requests.RequestException, urllib3.exceptions.HTTPError) as error:
        reason = getattr(error, "explanation", None) or error
        raise CommandFailed(step, ["docker", *words], str(reason), []) from error


def _holding(kind: str, name: str, key: str, labels: Mapping[str, str], running: bool = True) -> Holding:
    return Holding(kind, name, key, labels[CLUSTER_LABEL], labels.get(ID_LABEL, ""), running)
