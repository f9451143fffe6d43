"""JupyterLab on the head: its password, which is kept on this side, and the tunnel to it."""

import base64
import contextlib
import secrets
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
from typing_extensions import Self

from orchestrator import secret, tunnel
from orchestrator.cluster import Cluster
from orchestrator.config import Config
from orchestrator.errors import StateError, command
from orchestrator.process import Beside
from orchestrator.state import Home, Record
from orchestrator.tunnel import Service

SERVER = Service("JupyterLab", 8888, "/api", "notebook")
ANSWER_SECONDS = 120.0  # a slow guest imports JupyterLab for a minute


class Secret(secret.Secret):
    """The password and its hash, as Jupyter wants it: kept together, since a hash that is made again is another one."""

    hashed: str

    @classmethod
    def of(cls, password: str) -> Self:
        return cls(password=password, hashed=hashed(password))


def settled(place: Home, wanted: Config) -> AbstractContextManager[None]:
    """Around a deploy: as long as there is a password the head has, or may have, a notebook server."""
    return secret.settled(place.notebook, Secret, wanted.jupyter, wanted.jupyter_password)


def hashed(password: str) -> str:
    """As jupyter_server.auth.passwd writes it; the cost is the second of RFC 9106, section 4."""
    salt, passes, lanes, memory = secrets.token_bytes(16), 3, 4, 1 << 16  # KiB
    made = Argon2id(salt=salt, length=32, iterations=passes, lanes=lanes, memory_cost=memory).derive(password.encode())
    written = "$".join(base64.b64encode(part).decode().rstrip("=") for part in (salt, made))
    return f"argon2:$argon2id$v=19$m={memory},t={passes},p={lanes}${written}"


def for_ansible(place: Home, record: Record) -> dict[str, Any]:
    """What the role is told: nothing where there is no notebook server, so that it costs no task at all."""
    if not place.notebook.exists():
        return {}
    wanted = "present" if record.config.get("jupyter") else "absent"
    return {"jupyter": True, "jupyter_state": wanted, "jupyter_secret": str(place.notebook)}


def password(place: Home, record: Record) -> str:
    """Raises StateError where the cluster was deployed without JupyterLab."""
    kept = secret.read(place.notebook, Secret) if record.config.get("jupyter") else None
    if kept is None:
        raise StateError(
            f"cluster {place.name!r} has no JupyterLab", f"{command('deploy --jupyter', place.name)} starts it"
        )
    return kept.password


@contextlib.contextmanager
def opened(place: Home, cluster: Cluster, port: int) -> Iterator[Beside]:
    """A tunnel to JupyterLab, which answers, at ``port`` of this machine. Raises CommandFailed, NodesFailed."""
    with tunnel.opened(place, cluster, {SERVER: port}, ANSWER_SECONDS) as open_tunnel:
        yield open_tunnel
