"""Ports of this machine that are ports of the head's own loopback, through one ssh client, while a command lasts."""

import contextlib
import http.client
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from orchestrator import process, ssh
from orchestrator.cluster import Cluster
from orchestrator.errors import CommandFailed, ConfigError, NodesFailed, command
from orchestrator.process import Beside
from orchestrator.state import Home

HERE = "127.0.0.1"  # on this machine as on the head: nobody else gets in
LOOK_SECONDS = 0.2


@dataclass(frozen=True)
class Service:
    """What listens on the head's loopback: it answers 200 at ``path`` once it is up; ``unit`` is systemd's name."""

    name: str
    port: int
    path: str
    unit: str


def free_port(wanted: int | None, usual: int = 0) -> int:
    """A port of this machine: ``wanted``, else the ``usual`` one, else any.

    Raises ConfigError where ``wanted`` is taken.
    """
    with _bound(wanted, usual) as probe:
        return int(probe.getsockname()[1])


def free_ports(services: Sequence[Service], first: int | None) -> dict[Service, int]:
    """A port of this machine for each, the same number as on the head where that is free; ``first`` is the first's.

    Raises ConfigError where ``first`` is taken.
    """
    with contextlib.ExitStack() as stack:  # each stays taken until the last is found
        probes = [stack.enter_context(_bound(None if n else first, s.port)) for n, s in enumerate(services)]
        return {s: int(probe.getsockname()[1]) for s, probe in zip(services, probes, strict=True)}


def _bound(wanted: int | None, usual: int) -> socket.socket:
    for candidate in [wanted] if wanted else [usual, 0]:
        probe = socket.socket()
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HERE, candidate))
            probe.listen()  # or it could be bound once more
        except OSError as error:
            probe.close()
            reason = error.strerror
        else:
            return probe
    raise ConfigError([f"--port: {wanted}: {reason}"], "choose another, or none")


def client_command(place: Home, cluster: Cluster, ports: Mapping[int, int]) -> list[str]:
    """A client that forwards ``ports`` (here -> on the head) for as long as its input lasts.

    With -N it would outlive a killed command.
    """
    forwards = [part for here, there in ports.items() for part in ("-L", f"{HERE}:{here}:{HERE}:{there}")]
    options = ["-o", "ExitOnForwardFailure=yes", "-o", "BatchMode=yes", *forwards]
    return ssh.client_command(place, cluster, cluster.head, ["cat"], options)


@contextlib.contextmanager
def opened(place: Home, cluster: Cluster, ports: Mapping[Service, int], seconds: float) -> Iterator[Beside]:
    """A tunnel to services, each at its port of this machine, once the first of them answers.

    What is given is that of process.beside. Raises CommandFailed, and NodesFailed where there is no answer within so
    many ``seconds``.
    """
    forwards = {here: service.port for service, here in ports.items()}
    try:
        with process.beside("open a tunnel", client_command(place, cluster, forwards)) as tunnel:
            _await_answer(cluster, *next(iter(ports.items())), tunnel, seconds)
            yield tunnel
    except CommandFailed as error:
        error.hint = error.hint or f"{command('status', cluster.name)} shows whether the head answers"
        raise


def _await_answer(cluster: Cluster, service: Service, port: int, tunnel: Beside, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not _answers(port, service.path):
        said = tunnel(LOOK_SECONDS)
        if time.monotonic() > deadline:
            reason = "; ".join([f"nothing within {seconds:.0f} s", *said[-1:]])
            why = f"`sudo journalctl --unit {service.unit}` on the head says why: {command('ssh', cluster.name)}"
            raise NodesFailed(f"{service.name} does not answer", {cluster.head: reason}, why)


def _answers(port: int, path: str) -> bool:
    connection = http.client.HTTPConnection(HERE, port, timeout=5.0)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", path)
        return connection.getresponse().status == http.HTTPStatus.OK
    return False
