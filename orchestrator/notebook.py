"""JupyterLab on the head: its password, which is kept on this side, and the tunnel to it."""

import base64
import contextlib
import http.client
import secrets
import socket
import time
from collections.abc import Iterator
from typing import Any

from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
from pydantic import BaseModel, ValidationError

from orchestrator import process, ssh, state
from orchestrator.cluster import Cluster
from orchestrator.config import Config
from orchestrator.errors import CommandFailed, ConfigError, NodesFailed, StateError, command
from orchestrator.process import Beside
from orchestrator.state import Home, Record

HERE, PORT = "127.0.0.1", 8888  # on the head, and on this machine where that is free
ANSWER_SECONDS = 120.0  # a slow guest imports JupyterLab for a minute
LOOK_SECONDS = 0.2


class Secret(BaseModel):
    """The password and its hash, as Jupyter wants it: kept together, since a hash that is made again is another one."""

    password: str
    hashed: str


@contextlib.contextmanager
def settled(place: Home, wanted: Config) -> Iterator[None]:
    """Around a deploy. The password is there before the head needs its hash, and goes once the head is rid of it.

    So as long as there is one the head has, or may have, a notebook server.
    """
    if wanted.jupyter:
        _keep(place, wanted.jupyter_password)
    yield
    if not wanted.jupyter:
        place.notebook.unlink(missing_ok=True)


def _keep(place: Home, given: str | None) -> None:
    kept = _read(place)
    password = given or (kept.password if kept else secrets.token_urlsafe(16))
    if kept is None or kept.password != password:
        made = Secret(password=password, hashed=hashed(password))
        state.replace(place.notebook, made.model_dump_json(indent=2) + "\n")


def hashed(password: str) -> str:
    """As jupyter_server.auth.passwd writes it; the cost is the second of RFC 9106, section 4."""
    salt, passes, lanes, memory = secrets.token_bytes(16), 3, 4, 1 << 16  # KiB
    made = Argon2id(salt=salt, length=32, iterations=passes, lanes=lanes, memory_cost=memory).derive(password.encode())
    written = "$".join(base64.b64encode(part).decode().rstrip("=") for part in (salt, made))
    return f"argon2:$argon2id$v=19$m={memory},t={passes},p={lanes}${written}"


def _read(place: Home) -> Secret | None:
    try:
        return Secret.model_validate_json(place.notebook.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        raise StateError(f"{place.notebook} cannot be read: {error}", "remove it: a deploy makes another") from error


def for_ansible(place: Home, record: Record) -> dict[str, Any]:
    """What the role is told: nothing where there is no notebook server, so that it costs no task at all."""
    if not place.notebook.exists():
        return {}
    wanted = "present" if record.config.get("jupyter") else "absent"
    return {"jupyter": True, "jupyter_state": wanted, "jupyter_secret": str(place.notebook)}


def password(place: Home, record: Record) -> str:
    """Raises StateError where the cluster was deployed without JupyterLab."""
    kept = _read(place) if record.config.get("jupyter") else None
    if kept is None:
        raise StateError(
            f"cluster {place.name!r} has no JupyterLab", f"{command('deploy --jupyter', place.name)} starts it"
        )
    return kept.password


def free_port(wanted: int | None) -> int:
    """A port of this machine for the tunnel: ``wanted``, else the usual one, else any.

    Raises ConfigError where ``wanted`` is taken.
    """
    for candidate in [wanted] if wanted else [PORT, 0]:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HERE, candidate))
            except OSError as error:
                reason = error.strerror
                continue
            return int(probe.getsockname()[1])
    raise ConfigError([f"--port: {wanted}: {reason}"], "choose another, or none")


def tunnel_command(place: Home, cluster: Cluster, port: int) -> list[str]:
    """A client that forwards ``port`` for as long as its input lasts: with -N it would outlive a killed command."""
    options = ["-o", "ExitOnForwardFailure=yes", "-o", "BatchMode=yes", "-L", f"{HERE}:{port}:{HERE}:{PORT}"]
    return ssh.client_command(place, cluster, cluster.head, ["cat"], options)


@contextlib.contextmanager
def opened(place: Home, cluster: Cluster, port: int) -> Iterator[Beside]:
    """A tunnel to JupyterLab, which answers, at ``port`` of this machine. Raises CommandFailed, NodesFailed."""
    try:
        with process.beside("open a tunnel", tunnel_command(place, cluster, port)) as tunnel:
            _await_answer(cluster, port, tunnel)
            yield tunnel
    except CommandFailed as error:
        error.hint = f"{command('status', cluster.name)} shows whether the head answers"
        raise


def _await_answer(cluster: Cluster, port: int, tunnel: Beside) -> None:
    deadline = time.monotonic() + ANSWER_SECONDS
    while not _answers(port):
        said = tunnel(LOOK_SECONDS)
        if time.monotonic() > deadline:
            reason = "; ".join([f"nothing within {ANSWER_SECONDS:.0f} s", *said[-1:]])
            why = f"`sudo journalctl --unit notebook` on the head says why: {command('ssh', cluster.name)}"
            raise NodesFailed("JupyterLab does not answer", {cluster.head: reason}, why)


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection(HERE, port, timeout=5.0)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", "/api")
        return connection.getresponse().status == http.HTTPStatus.OK
    return False
