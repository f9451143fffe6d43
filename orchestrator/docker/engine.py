"""Connect to the Docker Engine: its address, the facts that it reports, and its errors. The only user of the SDK."""

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from orchestrator import progress
from orchestrator.errors import CommandFailed, PreflightError
from orchestrator.lazy_imports import LazyModule
from orchestrator.schema.bounded_files import shown

if TYPE_CHECKING:
    import docker.auth
    import docker.context.config
    import docker.credentials
    import docker.errors
    import docker.tls
    import docker.utils.build
    import requests
    import urllib3

    import docker
else:
    docker, requests, urllib3 = LazyModule("docker"), LazyModule("requests"), LazyModule("urllib3")

_NOT_RUNNING = "start Docker (`sudo systemctl start docker`), or install it: https://docs.docker.com/engine/install"
ANSWER_SECONDS, BUILD_SECONDS = 60, 3600
TLS_HOST = "tcp://localhost:2376"  # of `docker` with DOCKER_TLS_VERIFY alone
CONTAINERD = Path("/var/lib/containerd")

Answer = TypeVar("Answer")


class Engine:
    """A connection to the Docker Engine that the ``docker`` command would use."""

    def __init__(self) -> None:
        """Connect. Raises PreflightError, with the remedy, if the engine does not answer."""
        try:
            self.host, self._tls = _endpoint()
            self.client = self._connect(ANSWER_SECONDS)
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

    def _connect(self, seconds: int) -> "docker.DockerClient":
        return docker.DockerClient(base_url=self.host, tls=self._tls or False, timeout=seconds)

    @property
    def is_local(self) -> bool:
        """Tell whether the engine listens on a socket of this machine."""
        return str(self.host).startswith(("unix:", "http+unix:"))

    @property
    def identity(self) -> dict[str, str]:
        """Return the engine's id and the name of its machine, either of which may change."""
        return {"id": str(self.facts.get("ID", "")), "machine": str(self.facts.get("Name", ""))}

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

    @property
    def image_directories(self) -> list[Path]:
        """Return the directories on whose disks images are; containerd's image store ignores the data root."""
        in_containerd = ["driver-type", "io.containerd.snapshotter.v1"] in (self.facts.get("DriverStatus") or [])
        return [self.data_root, CONTAINERD] if in_containerd and CONTAINERD.exists() else [self.data_root]

    @property
    def remaps_users(self) -> bool:
        """Tell whether containers have user namespaces (``userns-remap``)."""
        return "name=userns" in (self.facts.get("SecurityOptions") or [])

    @property
    def isolation(self) -> str | None:
        """Return why this machine does not reach the engine's networks; None if it does.

        Sources: Docker's pages "Networking on Docker Desktop" and "Rootless mode: known limitations".
        """
        if self.facts.get("OperatingSystem") == "Docker Desktop":
            return "Docker Desktop runs containers in a virtual machine"
        if "name=rootless" in (self.facts.get("SecurityOptions") or []):
            return "rootless Docker runs containers in a network namespace of its own"
        return None

    @cached_property
    def patient(self) -> "docker.DockerClient":
        """Return a client for requests that take long and are silent meanwhile."""
        return self._connect(BUILD_SECONDS)

    def with_credentials(self, request: Callable[["docker.APIClient"], Answer]) -> Answer:
        """Return the answer to ``request``, which is sent without credentials if Docker's helper for them fails."""
        warnings.filterwarnings("ignore", module=r"docker\.credentials")  # the note below says it
        try:
            return request(self.client.api)
        except (docker.credentials.StoreError, docker.errors.DockerException) as error:
            cause = error if isinstance(error, docker.credentials.StoreError) else error.__cause__
            if not isinstance(cause, docker.credentials.StoreError):
                raise
            remedy = "for private images, repair the helper, or remove credsStore from ~/.docker/config.json and log in"
            progress.note(f"Docker's credential helper fails, so none of its credentials is used ({cause}): {remedy}")
            return request(self._without_helpers.api)

    @cached_property
    def _without_helpers(self) -> "docker.DockerClient":
        """Return a client that uses only the credentials in Docker's configuration file."""
        client = self._connect(ANSWER_SECONDS)
        api: Any = client.api
        auths = api._auth_configs.auths or {docker.auth.INDEX_NAME: {}}  # the SDK would read the file again for none
        api._auth_configs = docker.auth.AuthConfig({"auths": auths})
        return client


def _endpoint() -> "tuple[str, docker.tls.TLSConfig | None]":
    """Return the engine's address and its TLS settings, as ``docker`` chooses them. Raises PreflightError."""
    if host := os.environ.get("DOCKER_HOST"):
        return host, _tls_of_environment()
    context = _context(os.environ.get("DOCKER_CONTEXT"))
    if context.Name != "default":
        return str(context.Host), context.TLSConfig
    tls = _tls_of_environment()
    return TLS_HOST if tls else str(context.Host), tls


def _tls_of_environment() -> "docker.tls.TLSConfig | None":
    """Return the TLS settings of the environment. Raises PreflightError if a file is missing."""
    if not os.environ.get("DOCKER_TLS_VERIFY"):  # without it, `docker` ignores DOCKER_CERT_PATH
        return None
    try:
        return docker.utils.kwargs_from_env()["tls"]
    except docker.errors.TLSParameterError as error:
        directory = os.environ.get("DOCKER_CERT_PATH") or "~/.docker"
        remedy = "set DOCKER_CERT_PATH to their directory, or `unset DOCKER_TLS_VERIFY`"
        raise PreflightError(f"{directory} lacks ca.pem, cert.pem or key.pem for DOCKER_TLS_VERIFY", remedy) from error


def _context(name: str | None) -> "docker.context.Context":
    """Return Docker's context ``name`` (default: the current one). Raises PreflightError."""
    context = docker.context.ContextAPI.get_context(name)
    if context is None:
        remedy = "`unset DOCKER_CONTEXT`" if name else "`docker context use default`"
        missing = name or docker.context.config.get_current_context_name()
        raise PreflightError(f"Docker has no context {missing!r}", remedy)
    return context


def sent_paths(directory: Path, ignored: list[str], dockerfile: str) -> set[str]:
    """Return what `docker build` sends of a directory.

    Args:
        directory: Directory of the Dockerfile.
        ignored: Patterns of its .dockerignore.
        dockerfile: Name of the Dockerfile in it, which is always sent.

    Returns:
        Paths of files, directories and links, relative to the directory.

    Raises:
        OSError: A directory cannot be read.
    """
    return set(docker.utils.build.exclude_paths(str(directory), [*ignored], dockerfile))


def faults() -> tuple[type[Exception], ...]:
    """Return the types of errors that the engine, or the connection to it, can cause."""
    return docker.errors.DockerException, requests.RequestException, urllib3.exceptions.HTTPError


def reason(error: Exception) -> str:
    """Return the engine's message about an error, else the error's own."""
    return str(getattr(error, "explanation", None) or error)


@contextmanager
def asking(step: str, *words: str) -> Iterator[None]:
    """Turn errors of the engine or its connection into CommandFailed, with the step and the docker command."""
    try:
        yield
    except faults() as error:
        raise CommandFailed(step, ["docker", *words], reason(error), []) from error


def if_it_exists() -> suppress:
    """Return a context that ends without an error if the engine does not have what is asked for."""
    return suppress(docker.errors.NotFound)
