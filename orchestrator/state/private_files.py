"""Read and write files that only the user may read; errors of the file system come with a remedy."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from orchestrator.errors import ConfigError, StateError
from orchestrator.schema import bounded_files
from orchestrator.schema.atomic_write import replaced
from orchestrator.schema.bounded_files import Inaccessible, Unreadable

DIRECTORY_HINT = "set {} to a directory of yours on a disk with room"

Model = TypeVar("Model", bound=BaseModel)


def load(path: Path, model: type[Model], remedy: str) -> Model:
    """Read a JSON file of the state directory as ``model``.

    Args:
        path: File.
        model: Pydantic model.
        remedy: Hint of the error if the file is damaged.

    Returns:
        The parsed model.

    Raises:
        FileNotFoundError: There is no such file.
        ConfigError: The file may not be read.
        StateError: The file is damaged.
    """
    try:
        return bounded_files.read_model(path, model)
    except Unreadable as error:
        if isinstance(error, Inaccessible):
            raise ConfigError([str(error)], DIRECTORY_HINT.format("XDG_STATE_HOME")) from error
        raise StateError(f"{error.name} cannot be read: {error.reason}", remedy) from error


def replace(path: Path, text: str) -> None:
    """Write ``path`` atomically, readable by its owner alone."""
    with usable(path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with replaced(path, 0o600) as file:
            file.write(text.encode())


@contextlib.contextmanager
def usable(path: Path, variable: str = "XDG_STATE_HOME") -> Iterator[None]:
    """Turn file system errors about ``path`` into ConfigError; its hint names ``variable``, which moves ``path``."""
    try:
        yield
    except OSError as error:
        hint = DIRECTORY_HINT.format(variable)
        raise ConfigError([f"{error.filename or path}: {error.strerror}"], hint) from error
