"""A stand-in for a head that another person controls: an ssh server of this machine with arbitrary answers."""

import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import IO, Any

import paramiko

from orchestrator import cluster as clusters
from orchestrator import ssh, state
from orchestrator.cluster import Cluster
from orchestrator.ssh import Session, key_pair
from orchestrator.state import StateDir
from tests import builders
from tests.stand_ins import loopback_listener

# Returns output in place of the command's; None lets this machine's shell run the command.
Answer = Callable[[str], bytes | None]


def honest(_: str) -> None:
    return None


@contextmanager
def session(answer: Answer = honest) -> Iterator[Session]:
    """Open a session on the stand-in as the head of cluster demo."""
    with listening(answer) as (port, host_key):
        state_dir, cluster = deployed(port, host_key)
        with ssh.connect(state_dir, cluster, "demo-head") as opened:
            yield opened


def deployed(port: int, host_key: str, name: str = "demo", **node: Any) -> tuple[StateDir, Cluster]:
    """Write the state of a cluster whose only node, the head with the fields ``node``, answers on ``port``."""
    state_dir = state.for_cluster(name)
    key_pair.public_half(state_dir.key)
    output = builders.output(nodes=1)
    output["name"] = name
    output["nodes"]["demo-head"] |= {"private_address": "127.0.0.1", "port": port, **node}
    state.replace(state_dir.known_hosts, f"[127.0.0.1]:{port} {host_key}\n")
    return state_dir, clusters.read(output)


@contextmanager
def listening(answer: Answer) -> Iterator[tuple[int, str]]:
    """Yield its port and its host key as in known_hosts."""
    key = paramiko.ECDSAKey.generate()
    with loopback_listener.accepting(partial(_serve, key, answer)) as port:
        yield port, f"{key.get_name()} {key.get_base64()}"


def _serve(key: paramiko.PKey, answer: Answer, listener: socket.socket) -> None:
    while True:
        transport = _Transport(listener.accept()[0])
        transport.daemon = True
        transport.add_server_key(key)
        with suppress(EOFError, paramiko.SSHException):  # a client that only checks whether it answers
            transport.start_server(server=_Server(answer))


class _Transport(paramiko.Transport):
    """Start a command once the client knows that it was accepted; otherwise the client could miss its end."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(connection)
        self.accepted: list[threading.Thread] = []

    def _send_user_message(self, data: paramiko.Message) -> None:
        super()._send_user_message(data)  # type: ignore[misc]
        while self.accepted and data.asbytes()[:1] == paramiko.common.cMSG_CHANNEL_SUCCESS:
            self.accepted.pop().start()


class _Server(paramiko.ServerInterface):
    def __init__(self, answer: Answer) -> None:
        self.answer = answer

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        return paramiko.common.AUTH_SUCCESSFUL

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.common.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        thread = threading.Thread(target=self._run, args=(channel, os.fsdecode(command)), daemon=True)
        channel.get_transport().accepted.append(thread)  # type: ignore[attr-defined]
        return True

    def _run(self, channel: paramiko.Channel, command: str) -> None:
        output, code = self.answer(command), 0
        with suppress(OSError, EOFError):  # the client has seen enough, or its connection broke
            if output is None:
                output, code = b"", _in_shell(channel, command)
            channel.sendall(output)
            channel.send_exit_status(code)
            channel.close()


def _in_shell(channel: paramiko.Channel, command: str) -> int:
    """Run a command with the client's input, send its output while it runs, and return its exit code."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(["sh", "-c", command], bufsize=0, **pipes) as child:  # type: ignore[call-overload]
        threading.Thread(target=_feed, args=(channel, child.stdin), daemon=True).start()
        errors = threading.Thread(target=_relay, args=(child.stderr, channel.sendall_stderr), daemon=True)
        errors.start()
        _relay(child.stdout, channel.sendall)
        errors.join()
    return int(child.returncode)


def _relay(output: IO[bytes], send: Callable[[bytes], None]) -> None:
    with suppress(OSError, EOFError):  # the client has seen enough, or its connection broke
        while piece := output.read(1 << 16):
            send(piece)


def _feed(channel: paramiko.Channel, stdin: IO[bytes]) -> None:
    with suppress(OSError, EOFError, ValueError), stdin:  # the command has ended
        while piece := channel.recv(1 << 16):
            stdin.write(piece)
