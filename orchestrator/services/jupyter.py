"""JupyterLab on the head: its service, and its password, kept on the control side."""

import base64
import secrets
from contextlib import AbstractContextManager
from typing import Any

from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
from typing_extensions import Self

from orchestrator.config import Config
from orchestrator.errors import StateError, command
from orchestrator.services import password_file as services_password
from orchestrator.services.tunnel import Service
from orchestrator.state import Record, StateDir

SERVER = Service("JupyterLab", 8888, "/api", "notebook")
ANSWER_SECONDS = 120.0  # on a slow guest, importing JupyterLab takes a minute


class Secret(services_password.Secret):
    """The password and its hash in Jupyter's format, stored together since hashing again gives another hash."""

    hashed: str

    @classmethod
    def of(cls, password: str) -> Self:
        """Make the secret of ``password``."""
        return cls(password=password, hashed=hashed(password))


def provision_password(state_dir: StateDir, config: Config) -> AbstractContextManager[None]:
    """Wrap a deploy: keep the password for as long as the head has, or may have, a notebook server."""
    return services_password.provision_password(state_dir.notebook, Secret, config.jupyter, config.jupyter_password)


def hashed(password: str) -> str:
    """Hash ``password`` in the format of jupyter_server.auth.passwd; the cost is the second of RFC 9106, section 4."""
    salt, passes, lanes, memory = secrets.token_bytes(16), 3, 4, 1 << 16  # KiB
    digest = Argon2id(salt=salt, length=32, iterations=passes, lanes=lanes, memory_cost=memory).derive(
        password.encode()
    )
    written = "$".join(base64.b64encode(part).decode().rstrip("=") for part in (salt, digest))
    return f"argon2:$argon2id$v=19$m={memory},t={passes},p={lanes}${written}"


def for_ansible(state_dir: StateDir, record: Record) -> dict[str, Any]:
    """Return the variables of the Ansible role; empty without a notebook server, so that no task runs."""
    if not state_dir.notebook.exists():
        return {}
    jupyter_state = "present" if record.config.get("jupyter") else "absent"
    return {"jupyter": True, "jupyter_state": jupyter_state, "jupyter_secret": str(state_dir.notebook)}


def password(state_dir: StateDir, record: Record) -> str:
    """Return the password. Raises StateError if the cluster was deployed without JupyterLab."""
    secret = services_password.read(state_dir.notebook, Secret) if record.config.get("jupyter") else None
    if secret is None:
        raise StateError(
            f"cluster {state_dir.name!r} has no JupyterLab", f"{command('deploy --jupyter', state_dir.name)} starts it"
        )
    return secret.password
