"""A tunnel to services on the head: its local ports, its timeout, and its end with the command."""

import signal
import socket
import sys
from contextlib import ExitStack
from itertools import pairwise

import pytest

from orchestrator.errors import CommandFailed, ConfigError, NodesFailed
from orchestrator.services import tunnel
from orchestrator.services.tunnel import Service
from tests import builders, waiting
from tests.stand_ins import echo_stand_in, tunnel_stand_in
from tests.unit.conftest import StandIn, Start

SERVER, OTHER = Service("Server", 8888, "/api", "server"), Service("Other", 9999, "/", "other")


def occupied_port(stack: ExitStack) -> int:
    """Listen on a port of this machine and return it."""
    return int(stack.enter_context(socket.create_server((tunnel.LOCALHOST, 0))).getsockname()[1])


def test_occupied_port_is_refused_if_requested_else_skipped() -> None:
    with ExitStack() as stack:
        port = occupied_port(stack)
        with pytest.raises(ConfigError, match=f"--port: {port}: Address already in use"):
            tunnel.free_port(port)
        assert tunnel.free_port(None, usual=port) not in (0, port)
    assert tunnel.free_port(port) == port


def test_two_services_get_different_local_ports() -> None:
    with ExitStack() as stack:
        first, second = occupied_port(stack), occupied_port(stack)
    same = [SERVER, Service("Same", first, "/", "same"), Service("Too", first, "/", "too"), OTHER]
    ports = tunnel.free_ports(same, first)
    assert ports[SERVER] == first
    assert len(set(ports.values())) == len(same)
    assert tunnel.free_ports([SERVER], second) == {SERVER: second}


def test_tunnel_connects_localhost_to_the_heads_loopback() -> None:
    argv = tunnel.client_command(builders.deployed(), builders.cluster(), {7777: 8888, 7778: 9999})
    forwards = [value for option, value in pairwise(argv) if option == "-L"]
    assert forwards == ["127.0.0.1:7777:127.0.0.1:8888", "127.0.0.1:7778:127.0.0.1:9999"]
    assert "ExitOnForwardFailure=yes" in argv
    assert argv[-2:] == ["orchestrator@10.0.0.10", f"echo {tunnel.BOUND}; exec cat"]


def test_failed_tunnel_has_a_reason(stand_in: StandIn) -> None:
    stand_in("ssh", "echo no route to it >&2; exit 255")
    with (
        pytest.raises(
            CommandFailed, match=r"open a tunnel: .* failed \(exit code 255\):\n    no route to it"
        ) as caught,
        tunnel.open_tunnel(builders.deployed(), builders.cluster(), {SERVER: tunnel.free_port(None)}, 5.0),
    ):
        pass
    assert caught.value.hint == "`orchestrator status --cluster demo` shows whether the head answers"


def test_tunnel_opens_with_first_service_and_closes_with_context(stand_in: StandIn) -> None:
    ports = tunnel.free_ports([SERVER, OTHER], None)
    with echo_stand_in.listening("hello") as address:
        tunnel_stand_in.on_path(stand_in, {SERVER.port: int(address.rpartition(":")[2])})
        with tunnel.open_tunnel(builders.deployed(), builders.cluster(), ports, waiting.DEADLINE) as opened:
            assert opened.wait(0.0) == []
            assert tunnel._answers(ports[SERVER], "/")
            assert not tunnel._answers(ports[OTHER], "/")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((tunnel.LOCALHOST, ports[SERVER]))


def test_silent_service_is_given_up_with_the_clients_message(stand_in: StandIn) -> None:
    tunnel_stand_in.on_path(stand_in, {})
    ports = tunnel.free_ports([SERVER], None)
    with (
        pytest.raises(NodesFailed, match=r"Server does not answer: demo-head\n .*: no answer within 2 s; .*refu"),
        tunnel.open_tunnel(builders.deployed(), builders.cluster(), ports, 2.0),
    ):
        pass


def test_error_response_does_not_count_as_an_answer(stand_in: StandIn) -> None:
    ports = tunnel.free_ports([SERVER], None)
    with echo_stand_in.listening("not yet", status=503) as address:
        tunnel_stand_in.on_path(stand_in, {SERVER.port: int(address.rpartition(":")[2])})
        with (
            pytest.raises(NodesFailed, match="no answer within 1 s") as caught,
            tunnel.open_tunnel(builders.deployed(), builders.cluster(), ports, 1.0),
        ):
            pass
    assert "journalctl --unit server" in caught.value.hint


def test_tunnel_ends_with_a_killed_command(start: Start, stand_in: StandIn) -> None:
    ports = tunnel.free_ports([SERVER], None)
    with echo_stand_in.listening("hello") as address:
        tunnel_stand_in.on_path(stand_in, {SERVER.port: int(address.rpartition(":")[2])})
        code = f"""
from orchestrator.services import tunnel
from tests import builders
server = tunnel.Service("Server", {SERVER.port}, "/api", "server")
with tunnel.open_tunnel(builders.deployed(), builders.cluster(), {{server: {ports[SERVER]}}}, 20.0) as opened:
    print("open")
    opened.wait(None)
"""
        parent = start("-c", code, PYTHONPATH=":".join(sys.path))
        assert waiting.read_line(parent) == "open"
        parent.send_signal(signal.SIGKILL)
        assert waiting.until(lambda: not tunnel._answers(ports[SERVER], "/"))


def test_another_program_at_the_port_does_not_count_as_an_answer(stand_in: StandIn) -> None:
    """Another user's program may take the port while ssh still logs in, and would be given the password."""
    stand_in("ssh", "exec /bin/sleep 60")
    with echo_stand_in.listening("hello") as address:
        port = int(address.rpartition(":")[2])
        with (
            pytest.raises(NodesFailed, match="no answer within 1 s"),
            tunnel.open_tunnel(builders.deployed(), builders.cluster(), {SERVER: port}, 1.0),
        ):
            pass
