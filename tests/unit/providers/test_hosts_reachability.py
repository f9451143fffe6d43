"""Test of the connections between hosts: the program runs on this machine, whose loopback has the hosts' addresses."""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from orchestrator.providers import hosts
from orchestrator.providers.hosts import listen_and_connect, reachability
from orchestrator.providers.hosts.login import Login
from orchestrator.providers.hosts.survey_answers import SurveyedHost
from tests import waiting
from tests.unit.conftest import StandIn
from tests.unit.providers.test_hosts_preflight import host, survey

PROGRAM = Path(hosts.__file__).with_name("listen_and_connect.py")
# A shell in place of ssh, whose last word is the command. A host with a file `port` only claims to listen on it.
SSH = """
for word; do host=$command; command=$word; done
port={here}/${{host#*@}}.port
if [ -e "$port" ]; then read -r number < "$port"; echo "test port $number end"; exec cat; fi
echo "Welcome to test port 22 end of the lab"
exec /bin/sh -c "$command"
"""


def on_loopback(number: int, **changes: Any) -> SurveyedHost:
    address = f"127.0.0.{number}"
    return SurveyedHost(f"demo-{number}", Login(address=address, user="lab"), address, None, survey(**changes))


@pytest.fixture
def machine(stand_in: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the shell in place of ssh. Return the directory of the hosts' files."""
    path = os.environ["PATH"]
    stand_in("ssh", SSH.format(here=tmp_path))
    monkeypatch.setenv("PATH", os.pathsep.join([os.environ["PATH"], path]))
    return tmp_path


def listening() -> list[psutil.Process]:
    """Return the processes of the program that this process has started."""
    children = psutil.Process().children(recursive=True)
    return [child for child in children if "b64decode" in " ".join(child.cmdline())]


@contextmanager
def silent_port(address: str) -> Iterator[int]:
    """Fill the queue of a port: the kernel then drops further packets that ask for a connection, as a firewall does."""
    with socket.socket() as server, socket.socket() as first, socket.socket() as second:
        server.bind((address, 0))
        server.listen(0)
        for client in (first, second):
            client.setblocking(False)
            client.connect_ex(server.getsockname())
        yield server.getsockname()[1]


@pytest.mark.skipif(not shutil.which("python3", path="/usr/bin"), reason="hosts have /usr/bin/python3")
def test_hosts_that_reach_each_other_are_accepted_within_seconds(machine: Path) -> None:
    begin = time.monotonic()
    assert reachability.blocked([on_loopback(number) for number in range(2, 6)]) == []
    assert time.monotonic() - begin < reachability.START_SECONDS / 2
    assert waiting.until(lambda: not listening())


def test_host_that_refuses_connections_is_named_with_the_remedy(machine: Path) -> None:
    (machine / "127.0.0.2.port").write_text("1\n")  # nothing listens there
    tested = [on_loopback(2, firewall="ufw"), on_loopback(3), on_loopback(4)]
    [error] = reachability.blocked(tested)
    assert error.message == (
        "hosts.addresses: lab@127.0.0.3, lab@127.0.0.4 cannot connect to lab@127.0.0.2 at 127.0.0.2:1: "
        "Connection refused"
    )
    assert "on lab@127.0.0.2: `sudo ufw allow from 127.0.0.3 && sudo ufw allow from 127.0.0.4`" in error.hint
    assert "administrator of the network" in error.hint


def test_program_names_a_connection_that_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listen_and_connect, "ATTEMPT", 0.3)
    with silent_port("127.0.0.2") as port:
        assert listen_and_connect.connect(f"127.0.0.2:{port}") == f"127.0.0.2:{port} ETIMEDOUT"


def test_hosts_without_python_or_with_a_failed_login_are_not_tested(machine: Path, stand_in: StandIn) -> None:
    assert reachability.blocked([on_loopback(2), on_loopback(3, python="none")]) == []
    stand_in("ssh", "echo Permission denied >&2; exit 255")
    assert reachability.blocked([on_loopback(2), on_loopback(3)]) == []


def test_single_host_is_not_tested(stand_in: StandIn, tmp_path: Path) -> None:
    stand_in("ssh", f"echo asked > {tmp_path}/asked")
    assert reachability.blocked([on_loopback(2)]) == []
    assert not (tmp_path / "asked").exists()


@pytest.mark.parametrize(
    ("firewall", "remedy"),
    [
        (
            "firewalld",
            "`sudo firewall-cmd --permanent --zone=trusted --add-source=10.0.0.11 && sudo firewall-cmd --rel",
        ),
        ("nftables", "ip saddr 10.0.0.11 accept`, and the same rule in /etc/nftables.conf; if"),
        ("netfilter-persistent", "--source 10.0.0.11 --jump ACCEPT && sudo netfilter-persistent save`; if"),
        ("", "if a firewall on lab@10.0.0.10 blocks them (`sudo nft list ruleset`)"),
    ],
)
def test_remedy_is_the_command_of_the_hosts_firewall(firewall: str, remedy: str) -> None:
    source = host("demo-worker-0", private_address="10.0.0.11")
    hint = reachability._remedy(host(firewall=firewall), [source], "EHOSTUNREACH")
    assert remedy in hint
    assert "ask the administrator of the network" in hint


def test_own_firewall_of_the_connecting_host_is_named() -> None:
    assert "their own firewall forbids it" in reachability._remedy(host(firewall="ufw"), [host()], "EPERM")


def test_program_ends_with_its_standard_input() -> None:
    with subprocess.Popen(
        [sys.executable, PROGRAM, "127.0.0.1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdin
        assert program.stdout
        assert re.fullmatch(r"test port \d+ end\n", program.stdout.readline())
        program.stdin.close()
        assert program.wait(10) == 0
