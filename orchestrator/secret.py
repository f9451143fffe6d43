"""A password that is kept on this side, in a file for its owner alone, for as long as the head has what it is for."""

import contextlib
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel
from typing_extensions import Self

from orchestrator import state
from orchestrator.errors import StateError
from orchestrator.schema import bounded
from orchestrator.schema.bounded import Inaccessible, Unreadable


class Secret(BaseModel):
    """What such a file holds; a subclass adds what is made of the password."""

    password: str

    @classmethod
    def of(cls, password: str) -> Self:
        return cls(password=password)


Kept = TypeVar("Kept", bound=Secret)


@contextlib.contextmanager
def settled(path: Path, kind: type[Kept], wanted: bool, given: str | None) -> Iterator[None]:
    """Around a deploy. The password is there before the head needs it, and goes once the head is rid of its service.

    So as long as there is one the head has, or may have, that service. It is the one ``given``, else the one that is
    kept, else made up. Raises StateError as :func:`read` does.
    """
    if wanted:
        _keep(path, kind, given)
    yield
    if not wanted:
        path.unlink(missing_ok=True)


def _keep(path: Path, kind: type[Kept], given: str | None) -> None:
    kept = read(path, kind)
    password = given or (kept.password if kept else secrets.token_urlsafe(16))
    if kept is None or kept.password != password:
        state.replace(path, kind.of(password).model_dump_json(indent=2) + "\n")


def read(path: Path, kind: type[Kept]) -> Kept | None:
    """What is kept; None where nothing is. Raises StateError where the file cannot be read."""
    try:
        return bounded.read_model(path, kind)
    except FileNotFoundError:
        return None
    except Unreadable as error:
        if isinstance(error, Inaccessible):
            raise StateError(f"{path} cannot be read: {error.reason}", "make it readable for you") from error
        problem = f"{path} cannot be read: {path.name} holds no password"  # the reason may hold it
        raise StateError(problem, "remove it: a deploy makes another") from error
