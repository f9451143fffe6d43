"""The only user of paramiko: commands on nodes, files to and from them, host keys pinned at first sight."""

import contextlib
import io
import shlex
import shutil
import socket
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import paramiko
from typing_extensions import Buffer

from orchestrator import state
from orchestrator.cluster import Cluster, Node
from orchestrator.errors import NodesFailed
from orchestrator.state import Home

Value = TypeVar("Value")
CONNECT_SECONDS, ANSWER_SECONDS = 5.0, 120.0
CHUNK = 1 << 16
_FAULTS = (OSError, EOFError, paramiko.SSHException)


@dataclass(frozen=True)
class Answer:
    """What a command on a node gave."""

    exit_code: int
    output: str
    errors: str


class Unreachable(Exception):
    """No connection to a node, or it broke; the message says why."""


class _Input(io.RawIOBase):
    """A command's standard input, for tarfile to write to. paramiko's own file for it fails when it is collected."""

    def __init__(self, channel: paramiko.Channel) -> None:
        self._channel = channel

    def write(self, data: Buffer) -> int:
        self._channel.sendall(bytes(data))
        return len(bytes(data))


class Session:
    """A connection to one node. Use :func:`connect`."""

    def __init__(self, node: str, client: paramiko.SSHClient) -> None:
        self.node, self._client = node, client

    def run(self, argv: Sequence[str], stdin: bytes = b"", timeout: float = ANSWER_SECONDS) -> Answer:
        """Run ``argv`` to its end. Raises Unreachable where the connection breaks or ``timeout`` s pass in silence."""
        with self._command(argv, timeout) as channel:
            if stdin:
                channel.sendall(stdin)
            channel.shutdown_write()
            with channel.makefile("rb") as out, channel.makefile_stderr("rb") as err:
                output, errors = out.read(), err.read()
            return Answer(channel.recv_exit_status(), output.decode(errors="replace"), errors.decode(errors="replace"))

    def follow(self, argv: Sequence[str]) -> Iterator[bytes]:
        """What ``argv`` writes, in pieces, as it comes."""
        with self._command(argv, None) as channel:
            while piece := channel.recv(CHUNK):
                yield piece

    def send(self, files: Mapping[str, Path], directory: str, on_file: Callable[[int], None] | None = None) -> None:
        """Unpack local ``files`` (name on the node -> path here) into ``directory``, which is made."""
        with self._command(["tar", "--extract", "--directory", directory], ANSWER_SECONDS) as channel:
            with tarfile.open(fileobj=_Input(channel), mode="w|", bufsize=CHUNK) as archive:
                for count, (name, path) in enumerate(files.items()):
                    archive.add(path, arcname=name, recursive=False, filter=_anonymous)
                    if on_file:
                        on_file(count + 1)
            channel.shutdown_write()
            if channel.recv_exit_status():
                raise Unreachable(f"unpacking into {directory} failed")

    def fetch(self, directory: str, names: Sequence[str], target: Path) -> None:
        """Copy ``names`` in ``directory`` on the node, files or trees, into the local directory ``target``."""
        with (
            self._command(["tar", "--create", "--directory", directory, *names], ANSWER_SECONDS) as channel,
            channel.makefile("rb", CHUNK) as pipe,
            tarfile.open(fileobj=pipe, mode="r|") as archive,
        ):
            for member in archive:
                _unpack(archive, member, target)

    @contextlib.contextmanager
    def _command(self, argv: Sequence[str], timeout: float | None) -> Iterator[paramiko.Channel]:
        try:
            transport = self._client.get_transport()
            if transport is None:
                raise Unreachable("connection closed")
            with transport.open_session(timeout=CONNECT_SECONDS) as channel:
                channel.settimeout(timeout)
                channel.exec_command(shlex.join(argv))
                yield channel
        except TimeoutError as error:
            raise Unreachable(f"`{argv[0]}` gave no answer for {timeout:.0f} s") from error
        except _FAULTS as error:
            raise Unreachable(f"connection broke: {error}") from error


def _unpack(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    """Write a regular file below ``target``; other kinds, and names that lead elsewhere, are left out."""
    path = (target / member.name).resolve()
    content = archive.extractfile(member) if member.isfile() else None
    if content and path.is_relative_to(target.resolve()):
        path.parent.mkdir(parents=True, exist_ok=True)
        with content, path.open("wb") as file:
            shutil.copyfileobj(content, file)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


@contextlib.contextmanager
def connect(place: Home, cluster: Cluster, name: str) -> Iterator[Session]:
    """A session on node ``name``, whose host key must be the pinned one. Raises Unreachable."""
    node = cluster.nodes[name]
    client = paramiko.SSHClient()
    client.load_host_keys(str(place.known_hosts))
    client.set_missing_host_key_policy(paramiko.RejectPolicy())
    try:
        client.connect(
            node.address,
            username=cluster.ssh_user,
            key_filename=str(place.key),
            timeout=CONNECT_SECONDS,
            banner_timeout=CONNECT_SECONDS,
            auth_timeout=CONNECT_SECONDS * 2,
            allow_agent=False,
            look_for_keys=False,
        )
        client.get_transport().set_keepalive(10)  # type: ignore[union-attr]
        yield Session(name, client)
    except _FAULTS as error:
        raise Unreachable(str(error) or type(error).__name__) from error
    finally:
        client.close()


def on_every_node(cluster: Cluster, action: Callable[[str], Value]) -> tuple[dict[str, Value], dict[str, str]]:
    """``action(name)`` for all nodes at once: what it gave by node, and why it failed by node."""
    results: dict[str, Value] = {}
    reasons: dict[str, str] = {}

    def attempt(name: str) -> None:
        try:
            results[name] = action(name)
        except Unreachable as error:
            reasons[name] = str(error)

    with ThreadPoolExecutor(max_workers=32) as pool:
        list(pool.map(attempt, cluster.nodes))
    order = list(cluster.nodes)
    return {n: results[n] for n in order if n in results}, {n: reasons[n] for n in order if n in reasons}


def pin_host_keys(place: Home, cluster: Cluster, pinned: Mapping[str, str], deadline: float) -> dict[str, str]:
    """Host keys by node id: the ones ``pinned`` already, and for new nodes the one they show now.

    Waits up to ``deadline`` seconds for each to answer; writes known_hosts. Raises NodesFailed.
    """
    until = time.monotonic() + deadline

    def key_of(name: str) -> str:
        node = cluster.nodes[name]
        return pinned.get(node.id) or _shown_key(node, until)

    keys, reasons = on_every_node(cluster, key_of)
    if reasons:
        raise NodesFailed(f"no ssh within {deadline:.0f} s", reasons, "`orchestrator deploy` tries again")
    lines = [f"{address} {keys[name]}\n" for name, node in cluster.nodes.items() for address in _addresses(node)]
    state.replace(place.known_hosts, "".join(lines))
    return {cluster.nodes[name].id: key for name, key in keys.items()}


def _shown_key(node: Node, until: float) -> str:
    while True:
        try:
            with socket.create_connection((node.address, 22), CONNECT_SECONDS) as connection:
                transport = paramiko.Transport(connection)
                try:
                    transport.start_client(timeout=CONNECT_SECONDS)
                    key = transport.get_remote_server_key()
                    return f"{key.get_name()} {key.get_base64()}"
                finally:
                    transport.close()
        except _FAULTS as error:
            if time.monotonic() > until:
                raise Unreachable(str(error)) from error
            time.sleep(0.1)


def _addresses(node: Node) -> list[str]:
    return sorted({node.address, node.private_address})


def client_command(place: Home, cluster: Cluster, name: str, argv: Sequence[str] = ()) -> list[str]:
    """The OpenSSH command of a terminal on node ``name``."""
    options = {"UserKnownHostsFile": place.known_hosts, "StrictHostKeyChecking": "yes", "IdentitiesOnly": "yes"}
    flags = [part for key, value in options.items() for part in ("-o", f"{key}={value}")]
    destination = f"{cluster.ssh_user}@{cluster.nodes[name].address}"
    return ["ssh", "-i", str(place.key), *flags, destination, *argv]
