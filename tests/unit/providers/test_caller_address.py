"""Which address may ssh into a cloud's nodes, where the user does not say."""

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
def test_an_address_arrives_as_it_was_sent_unless_it_is_private_and_leaves_for_the_world(
    source: str, target: str, arrives: bool
) -> None:
    assert caller_address.arrives(IPv4Address(source), IPv4Address(target)) is arrives


def test_on_the_way_to_this_machine_itself_the_world_outside_is_asked() -> None:
    with echo_stand_in.listening("203.0.113.7\n") as address:
        assert caller_address.caller_addresses(["127.0.0.1"], address) == ["203.0.113.7/32"]


def test_a_name_that_nobody_knows_is_no_obstacle() -> None:
    with echo_stand_in.listening("203.0.113.7") as address:
        assert caller_address.caller_addresses(["no-such.invalid"], address) == ["203.0.113.7/32"]


def test_a_proxy_is_not_asked_since_ssh_does_not_go_through_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with echo_stand_in.listening("203.0.113.7") as address:
        assert caller_address.caller_addresses([], address) == ["203.0.113.7/32"]


@pytest.mark.parametrize(("content", "status"), [("<html>", 200), ("2001:db8::7", 200), ("203.0.113.7", 503)])
def test_where_it_cannot_be_found_out_the_flag_is_named(content: str, status: int) -> None:
    with (
        echo_stand_in.listening(content, status) as address,
        pytest.raises(PreflightError, match="allow_from: this machine") as caught,
    ):
        caller_address.caller_addresses([], address)
    assert caught.value.hint == "`--allow-from CIDR`"


def test_where_nobody_answers_the_flag_is_named_too() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(PreflightError, match="could not be found out"):
        caller_address.caller_addresses([], f"http://127.0.0.1:{port}")
