"""Passwords on the control side: a file readable by its owner alone, for as long as the head has the service."""

import contextlib
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel
from typing_extensions import Self

from orchestrator import state
from orchestrator.errors import StateError
from orchestrator.schema import bounded_files
from orchestrator.schema.bounded_files import Inaccessible, Unreadable


class Secret(BaseModel):
    """Content of a password file; subclasses add what is derived from the password."""

    password: str

    @classmethod
    def of(cls, password: str) -> Self:
        """Make the secret of ``password``."""
        return cls(password=password)


SecretType = TypeVar("SecretType", bound=Secret)


@contextlib.contextmanager
def provision_password(path: Path, kind: type[SecretType], enabled: bool, password: str | None) -> Iterator[None]:
    """Wrap a deploy: store the password before the head needs it, and remove it after the head has lost the service.

    So the file exists for as long as the head has, or may have, the service.

    Args:
        path: File of the password.
        kind: Model of the file.
        enabled: Whether the deployed cluster has the service.
        password: Password to store; default: the stored one, else a generated one.

    Raises:
        StateError: The file cannot be read.
    """
    if enabled:
        _keep(path, kind, password)
    yield
    if not enabled:
        path.unlink(missing_ok=True)


def _keep(path: Path, kind: type[SecretType], password: str | None) -> None:
    secret = read(path, kind)
    password = password or (secret.password if secret else secrets.token_urlsafe(16))
    if secret is None or secret.password != password:
        state.replace(path, kind.of(password).model_dump_json(indent=2) + "\n")


def read(path: Path, kind: type[SecretType]) -> SecretType | None:
    """Read a password file; None if it does not exist. Raises StateError if it cannot be read."""
    try:
        return bounded_files.read_model(path, kind)
    except FileNotFoundError:
        return None
    except Unreadable as error:
        if isinstance(error, Inaccessible):
            raise StateError(f"{path} cannot be read: {error.reason}", "make it readable for your account") from error
        problem = f"{path} cannot be read: {path.name} holds no password"  # the reason may contain the password
        raise StateError(problem, "remove it: a deploy makes another") from error
