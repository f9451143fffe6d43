"""The address that may ssh into a cloud's nodes by default."""

import socket
from ipaddress import IPv4Address

import pytest

from orchestrator.errors import PreflightError
from orchestrator.providers import caller_address
from tests.stand_ins import echo_stand_in


@pytest.mark.parametrize(
    ("source", "target", "arrives"),
    [
        ("8.8.4.4", "8.8.8.8", True),
        ("8.8.4.4", "10.20.0.5", True),
        ("10.9.0.7", "10.20.0.5", True),
        ("192.168.1.5", "8.8.8.8", False),
        ("100.64.0.5", "8.8.8.8", False),
        ("127.0.0.1", "127.0.0.1", False),
    ],
)
def test_local_address_is_used_unless_private_on_a_public_route(source: str, target: str, arrives: bool) -> None:
    assert caller_address.arrives(IPv4Address(source), IPv4Address(target)) is arrives


def test_route_through_this_machine_needs_an_external_service() -> None:
    with echo_stand_in.listening("203.0.113.7\n") as address:
        assert caller_address.caller_addresses(["127.0.0.1"], address) == ["203.0.113.7/32"]


def test_unknown_host_name_is_no_obstacle() -> None:
    with echo_stand_in.listening("203.0.113.7") as address:
        assert caller_address.caller_addresses(["no-such.invalid"], address) == ["203.0.113.7/32"]


def test_proxy_is_not_used_because_ssh_does_not_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with echo_stand_in.listening("203.0.113.7") as address:
        assert caller_address.caller_addresses([], address) == ["203.0.113.7/32"]


@pytest.mark.parametrize(("content", "status"), [("<html>", 200), ("2001:db8::7", 200), ("203.0.113.7", 503)])
def test_undetectable_address_names_the_flag(content: str, status: int) -> None:
    with (
        echo_stand_in.listening(content, status) as address,
        pytest.raises(PreflightError, match="allow_from: this machine") as caught,
    ):
        caller_address.caller_addresses([], address)
    assert caught.value.hint == "`--allow-from CIDR`"


def test_unreachable_service_names_the_flag() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(PreflightError, match="could not be found out"):
        caller_address.caller_addresses([], f"http://127.0.0.1:{port}")
