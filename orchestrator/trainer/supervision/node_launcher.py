"""Launcher of a run's processes on every host, one connection and one agent per host.

It serves the launchers that bring no launcher of their own for several hosts: plain, tensorflow, torchrun and ray. The
processes of each host are listed in ``launch.json``. Ranks of Horovod meet at a server in this process, as with
horovodrun over Gloo, so scripts for Horovod run, too.
"""

import ctypes  # noqa: F401  so that not every child imports it in end_with_parent
import json
import os
import re
import secrets
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from orchestrator import exit_codes, grace_periods, launch_layout
from orchestrator.launch_layout import Layout
from orchestrator.trainer.supervision import leftover_processes, rank_record
from orchestrator.trainer.supervision.output_relay import Relay
from orchestrator.trainer.supervision.own_addresses_and_ports import is_local
from orchestrator.trainer.supervision.rank_environment import RENDEZVOUS_HOST, RENDEZVOUS_PORT
from orchestrator.trainer.supervision.signals import ENDING, Signals

# A host that vanishes is noticed after 30 seconds.
SSH = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=20", "-o", "ServerAliveInterval=10"]
LOST_AGENT = re.compile(r"the agent on (\S+) was killed, or the connection to it was lost")  # in the run's log
OF_THE_UNIT = {"HOME", "INVOCATION_ID", "JOURNAL_STREAM", "LOGNAME", "SHELL", "SYSTEMD_EXEC_PID", "USER"}

Agents = dict[str, "subprocess.Popen[bytes]"]


def main(run_directory: Path) -> int:
    """Run the processes of all hosts to their end; return the exit code of the first host that failed."""
    signals = Signals(*ENDING)
    layout = launch_layout.read(run_directory)
    relays = {host: Relay() for host in layout.processes if not is_local(host)}
    agents = {host: _start_agent(run_directory, host, relays.get(host)) for host in layout.processes}
    for relay in relays.values():  # their threads must not exist while a process is forked
        relay.start()
    passed_on = {name: text for name, text in os.environ.items() if name not in OF_THE_UNIT and "\n" not in text}
    _order(agents, {**passed_on, **_rendezvous(layout), **(_ray_token(run_directory) if layout.has_ray else {})})
    code = _wait(agents, layout, signals)
    _report_lost(agents, layout, run_directory)
    _end_agents(agents)
    for relay in relays.values():
        relay.drain()
    return code


def _start_agent(run_directory: Path, host: str, relay: "Relay | None") -> "subprocess.Popen[bytes]":
    """Start the agent of a host; ``relay`` is for output that ssh receives, whose pieces end within lines.

    A stop signals the launcher's process group. ssh leaves it, and so brings what ranks write as they end.
    """
    safe = ["-P"] if getattr(sys.flags, "safe_path", False) else []  # as this program; Python 3.10 of tests lacks it
    agent = [sys.executable, *safe, "-m", "orchestrator.trainer.supervision.node_agent", str(run_directory), host]
    if relay is None:
        return subprocess.Popen(agent, stdin=subprocess.PIPE)
    stdout, stderr = relay.inputs
    return subprocess.Popen(
        [*SSH, host, *agent],
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
        preexec_fn=leftover_processes.end_with_parent,  # noqa: PLW1509  there are no threads yet
    )


def _rendezvous(layout: Layout) -> dict[str, str]:
    """Start the server at which ranks of Horovod meet, and return its address as variables."""
    from horovod.runner.common.util.hosts import HostInfo, get_host_assignments  # noqa: PLC0415  agents start meanwhile
    from horovod.runner.http.http_server import RendezvousServer  # noqa: PLC0415

    slots = {host: layout.ranks.count(host) for host in dict.fromkeys(layout.ranks)}
    plan = get_host_assignments([HostInfo(host, count) for host, count in slots.items()], len(layout.ranks))
    server = RendezvousServer()
    port = server.start()
    server.init(plan)
    return {RENDEZVOUS_PORT: str(port), RENDEZVOUS_HOST: os.environ[RENDEZVOUS_HOST]}


def _ray_token(run_directory: Path) -> dict[str, str]:
    """Create the token of the run's Ray cluster, and return the variables by which Ray's programs find it.

    Everyone who reaches a Ray cluster without one can run programs in it, and a network of own hosts has other users.
    """
    path = run_directory / launch_layout.RAY_TOKEN
    path.touch(0o600)
    path.write_text(secrets.token_hex(32))
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(path)}


def _order(agents: Agents, environment: dict[str, str]) -> None:
    line = json.dumps({"environment": environment, "directory": str(Path.cwd())}).encode() + b"\n"
    for agent in agents.values():
        with suppress(BrokenPipeError):  # its exit code says why
            os.write(_input(agent), line)


def _wait(agents: Agents, layout: Layout, signals: Signals) -> int:
    """Wait until all agents have ended well, one has failed, the leader's has ended, or until asked to end."""
    while True:
        codes = {host: agent.poll() for host, agent in agents.items()}
        ended = [code for code in codes.values() if code is not None]
        failed = [code for code in ended if code]
        if failed:
            leftover_processes.wait_for_all(agents.values(), grace_periods.OTHER_HOSTS)
            return leftover_processes.exit_code(failed[0])
        if len(ended) == len(agents) or (layout.has_leader and codes[layout.ranks[0]] == 0):
            return 0
        signals.wait(60.0)
        if signals.received() & ENDING:
            return exit_codes.TERMINATED


def _report_lost(agents: Agents, layout: Layout, run_directory: Path) -> None:
    """Name each agent that ended without having said why: by a signal, or with its connection."""
    codes = {host: agent.poll() or 0 for host, agent in agents.items()}
    lost = {host: code for host, code in codes.items() if code < 0 or code == exit_codes.SSH_FAILED}
    records = rank_record.read_all(run_directory) if lost else []
    failed = {layout.ranks[record.rank] for record in records if record.exit_code and not record.terminated}
    for host in lost.keys() - failed:
        text = f"the agent on {host} was killed, or the connection to it was lost (exit code {lost[host]})"
        print(text, file=sys.stderr, flush=True)


def _end_agents(agents: Agents) -> None:
    """Let every agent end its processes: the end of its input tells it to."""
    for agent in agents.values():
        os.close(_input(agent))
    deadline = time.monotonic() + grace_periods.AGENT
    for agent in agents.values():
        try:
            agent.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            agent.kill()


def _input(agent: "subprocess.Popen[bytes]") -> int:
    return agent.stdin.fileno() if agent.stdin else -1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
