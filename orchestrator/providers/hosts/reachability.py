"""Test of the connections between hosts: each must reach all others at their private addresses."""

import errno
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from orchestrator import ssh
from orchestrator.errors import CommandFailed, PreflightError
from orchestrator.process.background import Background
from orchestrator.providers.hosts import login
from orchestrator.providers.hosts.survey_answers import SurveyedHost

PROGRAM = "listen_and_connect.py"
START_SECONDS, CONNECT_SECONDS, LOOK_SECONDS = 20.0, 10.0, 0.05
_LINE = re.compile(r"^test (port|[\d.]+:\d+) (\w+) end$", re.MULTILINE)
# Command that lets the firewall of a host admit another host, by the firewall's name in the survey.
ADMIT = {
    "ufw": "sudo ufw allow from {}",
    "firewalld": "sudo firewall-cmd --permanent --zone=trusted --add-source={}",
    "nftables": "sudo nft insert rule inet filter input ip saddr {} accept",
    "netfilter-persistent": "sudo iptables --insert INPUT --source {} --jump ACCEPT",
}
# How rules stay after a restart.
KEEP = {
    "firewalld": " && sudo firewall-cmd --reload",
    "netfilter-persistent": " && sudo netfilter-persistent save",
}


@dataclass(frozen=True)
class _Listener:
    """Host on which the program listens at ``peer``, written ADDRESS:PORT."""

    host: SurveyedHost
    program: Background
    peer: str


def blocked(surveyed: Sequence[SurveyedHost]) -> list[PreflightError]:
    """Return an error for each host that others cannot reach, and for each reason of their kernels.

    Ranks listen on any port, and the head serves /shared: a blocked host would fail much later, without a reason.
    Hosts on which the test itself fails, for example without python3, are left out.
    """
    able = [host for host in surveyed if host.survey and not host.survey.python]
    if len(able) < 2:
        return []
    with ExitStack() as stack:
        listeners = _listen(stack, able)
        outcomes = _connect(listeners)
    return [error for target in listeners for error in _errors(target, listeners, outcomes)]


def _listen(stack: ExitStack, hosts: Sequence[SurveyedHost]) -> list[_Listener]:
    """Start the program on all hosts; it ends with ``stack``. Return those that listen."""
    deadline, listeners = time.monotonic() + START_SECONDS, list[_Listener]()
    at_once = ssh.AT_ONCE[any(host.login.jump for host in hosts)]
    for begin in range(0, len(hosts), at_once):
        programs = [
            (host, stack.enter_context(login.start(host.login, PROGRAM, host.address)))
            for host in hosts[begin : begin + at_once]
        ]
        for host, program in programs:
            port = _answers(program, 1, deadline).get("port", "")
            if port.isdecimal():
                listeners.append(_Listener(host, program, f"{host.address}:{port}"))
    return listeners


def _connect(listeners: Sequence[_Listener]) -> dict[str, dict[str, str]]:
    """Let all hosts connect to all others. Return results by name of the connecting host, then by peer."""
    for listener in listeners:
        listener.program.send(" ".join(other.peer for other in listeners if other is not listener))
    deadline = time.monotonic() + CONNECT_SECONDS
    return {listener.host.name: _answers(listener.program, len(listeners), deadline) for listener in listeners}


def _answers(program: Background, count: int, deadline: float) -> dict[str, str]:
    """Return the program's answers once there are ``count``, or fewer if it has ended or is too slow."""
    with suppress(CommandFailed):
        while len(_read(program)) < count and time.monotonic() < deadline:
            program.wait(LOOK_SECONDS)
    return _read(program)


def _read(program: Background) -> dict[str, str]:
    return dict(_LINE.findall("\n".join(program.written())))


def _errors(
    target: _Listener, listeners: Sequence[_Listener], outcomes: dict[str, dict[str, str]]
) -> Iterator[PreflightError]:
    reasons = {source.host.name: outcomes[source.host.name].get(target.peer, "OK") for source in listeners}
    for reason in sorted(set(reasons.values()) - {"OK"}):
        sources = [source.host for source in listeners if reasons[source.host.name] == reason]
        which = ", ".join(str(source.login) for source in sources)
        why = os.strerror(getattr(errno, reason)) if hasattr(errno, reason) else reason
        message = f"hosts.addresses: {which} cannot connect to {target.host.login} at {target.peer}: {why}"
        yield PreflightError(message, _remedy(target.host, sources, reason))


def _remedy(target: SurveyedHost, sources: Sequence[SurveyedHost], reason: str) -> str:
    if reason in ("EPERM", "EACCES"):
        return "their own firewall forbids it: `sudo nft list ruleset` there shows its rules for output"
    addresses, firewall = [source.address for source in sources], target.survey.firewall if target.survey else ""
    network = "ask the administrator of the network between them to allow TCP on all ports"
    if firewall not in ADMIT:
        rules = f"if a firewall on {target.login} blocks them (`sudo nft list ruleset`), let it admit them to all ports"
        return f"{rules}; else {network}"
    commands = " && ".join(ADMIT[firewall].format(address) for address in addresses) + KEEP.get(firewall, "")
    lasting = ", and the same rule in /etc/nftables.conf" * (firewall == "nftables")
    return f"on {target.login}: `{commands}`{lasting}; if that is not enough, {network}"
