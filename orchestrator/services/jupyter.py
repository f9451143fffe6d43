"""JupyterLab on the head: its password, kept on the control side, and the tunnel to it."""

import base64
import contextlib
import secrets
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
from typing_extensions import Self

from orchestrator.cluster import Cluster
from orchestrator.config import Config
from orchestrator.errors import StateError, command
from orchestrator.process import Beside
from orchestrator.services import password as services_password
from orchestrator.services import tunnel
from orchestrator.services.tunnel import Service
from orchestrator.state import Home, Record

SERVER = Service("JupyterLab", 8888, "/api", "notebook")
ANSWER_SECONDS = 120.0  # on a slow guest, importing JupyterLab takes a minute


class Secret(services_password.Secret):
    """The password and its hash in Jupyter's format, stored together since hashing again gives another hash."""

    hashed: str

    @classmethod
    def of(cls, password: str) -> Self:
        """Make the secret of ``password``."""
        return cls(password=password, hashed=hashed(password))


def settled(place: Home, wanted: Config) -> AbstractContextManager[None]:
    """Wrap a deploy: keep the password for as long as the head has, or may have, a notebook server."""
    return services_password.settled(place.notebook, Secret, wanted.jupyter, wanted.jupyter_password)


def hashed(password: str) -> str:
    """Hash ``password`` in the format of jupyter_server.auth.passwd; the cost is the second of RFC 9106, section 4."""
    salt, passes, lanes, memory = secrets.token_bytes(16), 3, 4, 1 << 16  # KiB
    made = Argon2id(salt=salt, length=32, iterations=passes, lanes=lanes, memory_cost=memory).derive(password.encode())
    written = "$".join(base64.b64encode(part).decode().rstrip("=") for part in (salt, made))
    return f"argon2:$argon2id$v=19$m={memory},t={passes},p={lanes}${written}"


def for_ansible(place: Home, record: Record) -> dict[str, Any]:
    """Return the variables of the Ansible role; empty without a notebook server, so that no task runs."""
    if not place.notebook.exists():
        return {}
    wanted = "present" if record.config.get("jupyter") else "absent"
    return {"jupyter": True, "jupyter_state": wanted, "jupyter_secret": str(place.notebook)}


def password(place: Home, record: Record) -> str:
    """Return the password. Raises StateError if the cluster was deployed without JupyterLab."""
    kept = services_password.read(place.notebook, Secret) if record.config.get("jupyter") else None
    if kept is None:
        raise StateError(
            f"cluster {place.name!r} has no JupyterLab", f"{command('deploy --jupyter', place.name)} starts it"
        )
    return kept.password


@contextlib.contextmanager
def opened(place: Home, cluster: Cluster, port: int) -> Iterator[Beside]:
    """Open a tunnel to JupyterLab and wait until it answers.

    Args:
        place: State directory of the cluster.
        cluster: Deployed cluster.
        port: Port of this machine.

    Yields:
        The function of the tunnel that waits, as in ``process.beside``.

    Raises:
        CommandFailed: The tunnel cannot be opened.
        NodesFailed: JupyterLab does not answer in time.
    """
    with tunnel.opened(place, cluster, {SERVER: port}, ANSWER_SECONDS) as open_tunnel:
        yield open_tunnel
