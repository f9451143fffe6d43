"""The only user of the Docker SDK: images built, and what carries our labels found and removed."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Network
from pathlib import Path
from typing import IO, Any

import docker.errors
import requests
import urllib3
from docker.context import ContextAPI
from docker.context.config import get_current_context_name

import docker
from orchestrator import process
from orchestrator.errors import CommandFailed, PreflightError
from orchestrator.schema.bounded import shown

CLUSTER_LABEL, ID_LABEL = "orchestrator.cluster", "orchestrator.id"
_NOT_RUNNING = "start Docker (`sudo systemctl start docker`), or install it: https://docs.docker.com/engine/install"
ANSWER_SECONDS, BUILD_SECONDS = 60, 3600


@dataclass(frozen=True)
class Holding:
    """Something that deployment ``id`` of ``cluster`` has there; ``running`` is of containers only."""

    kind: str
    name: str
    key: str
    cluster: str
    id: str
    running: bool = True


@dataclass(frozen=True)
class Network:
    """An IPv4 network that the engine has given away; ``id`` is that of the deployment, where it is one of ours."""

    name: str
    id: str
    subnet: IPv4Network


class Engine:
    """A connection to the Docker Engine that the ``docker`` command would use."""

    def __init__(self) -> None:
        """Raises PreflightError where it does not answer, with the remedy."""
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
        except Exception as error:  # of the SDK, which checks neither addresses nor the shape of Docker's own files
            said = shown(str(error))
            hint = "check DOCKER_HOST, DOCKER_CONTEXT, and config.json and contexts in ~/.docker (or $DOCKER_CONFIG)"
            raise PreflightError(f"Docker's settings cannot be used: {type(error).__name__}: {said}", hint) from error

    @property
    def is_here(self) -> bool:
        """Whether it listens on a socket of this machine."""
        return str(self.host).startswith(("unix:", "http+unix:"))

    @property
    def cpus(self) -> int:
        return int(self.facts["NCPU"])

    @property
    def memory(self) -> int:
        """Bytes."""
        return int(self.facts["MemTotal"])

    @property
    def cgroup_version(self) -> int:
        """1 or 2; engines before 20.10 know version 1 alone, and do not say so."""
        return int(self.facts.get("CgroupVersion", 1))

    @property
    def cgroup_driver(self) -> str:
        """``systemd`` or ``cgroupfs``."""
        return str(self.facts.get("CgroupDriver", "cgroupfs"))

    @property
    def data_root(self) -> Path:
        return Path(self.facts["DockerRootDir"])

    @cached_property
    def patient(self) -> docker.DockerClient:
        """For what takes long and says nothing meanwhile."""
        return docker.DockerClient(base_url=self.host, timeout=BUILD_SECONDS)

    def has_image(self, name: str) -> bool:
        """Whether the engine has image ``name``: NAME:TAG, or NAME@sha256:DIGEST, which it pulled by that digest."""
        return self.image_id(name) is not None

    def image_id(self, reference: str) -> str | None:
        """The id of the image of that name, tag or digest; None if the engine has none."""
        with _asking("look for an image", "image", "inspect", reference):
            try:
                return str(self.client.images.get(reference).id)
            except docker.errors.NotFound:
                return None

    def fetch(self, reference: str, on_status: Callable[[str], None], seconds: float) -> str:
        """Pull ``reference``. Returns why that failed, "" if it did not.

        A registry that says nothing for ``seconds`` fails.
        """

        def silent(passed: float) -> None:
            raise TimeoutError(f"no answer for {passed:.0f} s")

        try:
            messages = self.client.api.pull(reference, stream=True, decode=True)
            for message in process.watched(messages, seconds, silent):
                if "error" in message:
                    return str(message["error"])
                on_status(message.get("status", ""))
        except (docker.errors.DockerException, urllib3.exceptions.HTTPError, OSError) as error:
            return str(getattr(error, "explanation", None) or error)
        return ""

    def pull(self, tag: str) -> bool:
        """Whether ``tag`` could be pulled from its registry; the engine checks a digest in it."""
        with _asking("pull an image", "pull", tag):
            try:
                self.patient.images.pull(tag)
            except docker.errors.APIError:  # the registry's answer, or that there is none
                return False
        return True

    def load_root_filesystem(self, archive: IO[bytes], tag: str) -> None:
        """Make image ``tag`` of one layer out of a tar archive."""
        repository, _, version = tag.partition(":")
        with _asking("import an image", "import", "-", tag):
            self.patient.api.import_image_from_data(archive.read(), repository=repository, tag=version)

    def build(
        self, context: IO[bytes], tag: str, target: str, arguments: Mapping[str, str]
    ) -> Iterator[dict[str, Any]]:
        """Build ``target`` of the Dockerfile in the tar archive ``context``.

        Gives the engine's messages as they come, with the key "stream" or "error"; closing it ends the build.
        """
        with _asking("build an image", "build", "--tag", tag):
            yield from self.client.api.build(
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
                timeout=BUILD_SECONDS,
            )

    def export(self, tag: str) -> Iterator[bytes]:
        """The files of image ``tag`` as the pieces of a tar archive that `docker import` takes.

        It is unpacked once, where what `docker save` gives is first laid out on the disk and then unpacked from there.
        """
        name = f"orchestrator-export-{tag.partition(':')[2]}"
        self.remove("container", name)  # what was killed here
        with _asking("export an image", "create", tag):
            made = self.client.api.create_container(tag, ["true"], name=name)
        try:
            with _asking("export an image", "export", name):
                yield from self.patient.api.export(made["Id"])
        finally:
            self.remove("container", name)

    def owned(self) -> list[Holding]:
        """Every container, network and volume that carries our labels, of any cluster."""
        api, label = self.client.api, {"label": CLUSTER_LABEL}
        with _asking("list what is ours", "ps"):
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
        """Whether a container that shares another one's network has that network still: a restart makes a new one."""
        kind, _, other = container.get("HostConfig", {}).get("NetworkMode", "").partition(":")
        return kind != "container" or self._started(other) < self._started(container["Id"])

    def _started(self, key: str) -> str:
        """When a container was started last, in a form that sorts; "~", which is after all, if there is none."""
        try:
            return str(self.client.api.inspect_container(key)["State"]["StartedAt"]).rstrip("Z")
        except docker.errors.NotFound:
            return "~"

    def remove(self, kind: str, key: str) -> None:
        """Remove it; gone already is fine."""
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
        with _asking("list networks", "network", "ls"):
            found = self.client.networks.list()
        return [
            Network(n.attrs["Name"], (n.attrs.get("Labels") or {}).get(ID_LABEL, ""), IPv4Network(c["Subnet"], False))
            for n in found
            for c in n.attrs["IPAM"].get("Config") or []
            if ":" not in c.get("Subnet", ":")
        ]


def _host_of_context(name: str | None) -> str:
    """Where the engine of Docker's context ``name`` listens, by default of the current one. Raises PreflightError."""
    context = ContextAPI.get_context(name)
    if context is None:
        remedy = "`unset DOCKER_CONTEXT`" if name else "`docker context use default`"
        raise PreflightError(f"Docker has no context {name or get_current_context_name()!r}", remedy)
    return str(context.Host)


@contextmanager
def _asking(step: str, *words: str) -> Iterator[None]:
    """What the engine, or the connection to it, objects is an error that names the step and Docker's own command."""
    try:
        yield
    except (docker.errors.DockerException, requests.RequestException, urllib3.exceptions.HTTPError) as error:
        said = getattr(error, "explanation", None) or error
        raise CommandFailed(step, ["docker", *words], str(said), []) from error


def _holding(kind: str, name: str, key: str, labels: Mapping[str, str], running: bool = True) -> Holding:
    return Holding(kind, name, key, labels[CLUSTER_LABEL], labels.get(ID_LABEL, ""), running)
