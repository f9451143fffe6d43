"""Tunnels: forward ports of this machine to the head's loopback through one ssh client, while a command runs."""

import contextlib
import http.client
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from orchestrator import ssh
from orchestrator.cluster import Cluster
from orchestrator.errors import CommandFailed, ConfigError, NodesFailed, command
from orchestrator.process import background
from orchestrator.process.background import Background
from orchestrator.state import StateDir

LOCALHOST = "127.0.0.1"  # on this machine and on the head: no other machine can connect
LOOK_SECONDS = 0.2
BOUND = "bound"  # printed on the head: with ExitOnForwardFailure, only after the ports of this machine are bound


@dataclass(frozen=True)
class Service:
    """A service on the head's loopback: it answers 200 at ``path`` once it is up; ``unit`` is its systemd unit."""

    name: str
    port: int
    path: str
    unit: str


def free_port(port: int | None, usual: int = 0) -> int:
    """Choose a free port of this machine: ``port``, else the ``usual`` one, else any.

    Raises ConfigError if ``port`` is taken.
    """
    with _bound(port, usual) as probe:
        return int(probe.getsockname()[1])


def free_ports(services: Sequence[Service], first: int | None) -> dict[Service, int]:
    """Choose a free port of this machine for each service, the same as on the head if it is free.

    ``first`` is the port of the first service. Raises ConfigError if it is taken.
    """
    with contextlib.ExitStack() as stack:  # keep each port taken until the last is found
        probes = [stack.enter_context(_bound(None if n else first, s.port)) for n, s in enumerate(services)]
        return {s: int(probe.getsockname()[1]) for s, probe in zip(services, probes, strict=True)}


def _bound(port: int | None, usual: int) -> socket.socket:
    for candidate in [port] if port else [usual, 0]:
        probe = socket.socket()
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOCALHOST, candidate))
            probe.listen()  # else another process could bind it too
        except OSError as error:
            probe.close()
            reason = error.strerror
        else:
            return probe
    raise ConfigError([f"--port: {port}: {reason}"], "choose another, or leave the option out")


def client_command(state_dir: StateDir, cluster: Cluster, ports: Mapping[int, int]) -> list[str]:
    """Build the command of an ssh client that forwards ports for as long as its standard input is open.

    With -N it would outlive a killed command.

    Args:
        state_dir: State directory of the cluster.
        cluster: Deployed cluster.
        ports: Ports of the head by port of this machine.

    Returns:
        The argument list.
    """
    forwards = [
        part
        for local_port, head_port in ports.items()
        for part in ("-L", f"{LOCALHOST}:{local_port}:{LOCALHOST}:{head_port}")
    ]
    options = ["-o", "ExitOnForwardFailure=yes", "-o", "BatchMode=yes", *forwards]
    return ssh.client_command(state_dir, cluster, cluster.head, [f"echo {BOUND}; exec cat"], options)


@contextlib.contextmanager
def open_tunnel(
    state_dir: StateDir, cluster: Cluster, ports: Mapping[Service, int], seconds: float
) -> Iterator[Background]:
    """Open a tunnel to services and wait until the first of them answers.

    Args:
        state_dir: State directory of the cluster.
        cluster: Deployed cluster.
        ports: Ports of this machine by service.
        seconds: Seconds to wait for an answer.

    Yields:
        The ssh client.

    Raises:
        CommandFailed: The tunnel cannot be opened.
        NodesFailed: The first service does not answer in time.
    """
    forwards = {local_port: service.port for service, local_port in ports.items()}
    try:
        with background.run("open a tunnel", client_command(state_dir, cluster, forwards)) as tunnel:
            _await_answer(cluster, *next(iter(ports.items())), tunnel, seconds)
            yield tunnel
    except CommandFailed as error:
        error.hint = error.hint or f"{command('status', cluster.name)} shows whether the head answers"
        raise


def _await_answer(cluster: Cluster, service: Service, port: int, tunnel: Background, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    # Before the ports are bound, another user's program may answer at them, to be given a password.
    while not (BOUND in tunnel.written() and _answers(port, service.path)):
        lines = tunnel.wait(LOOK_SECONDS)
        if time.monotonic() > deadline:
            reason = "; ".join([f"no answer within {seconds:.0f} s", *lines[-1:]])
            why = f"`sudo journalctl --unit {service.unit}` on the head says why: {command('ssh', cluster.name)}"
            raise NodesFailed(f"{service.name} does not answer", {cluster.head: reason}, why)


def _answers(port: int, path: str) -> bool:
    connection = http.client.HTTPConnection(LOCALHOST, port, timeout=5.0)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", path)
        return connection.getresponse().status == http.HTTPStatus.OK
    return False
