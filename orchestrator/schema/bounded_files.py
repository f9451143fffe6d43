"""Read files that a user, a cloud or another version wrote: bounded in size and depth, never waiting for a writer.

Both sides import this module, so it uses only the standard library and pydantic.
"""

import json
import math
import re
import reprlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from orchestrator import untrusted_files

LIMIT = 16 << 20  # bytes: results of a very long run take a tenth of this
MAX_DEPTH = 64
MAX_DIGITS = 100  # per number
MAX_PROBLEMS = 5  # per message
MAX_SHOWN = 80  # characters of a value in a message
PLAIN = re.compile(r"[\w /-]{1,80}")

Model = TypeVar("Model", bound=BaseModel)


class Unreadable(ValueError):
    """File that cannot be used. The message names the file, the place in it and the reason."""

    def __init__(self, name: Path | str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.name, self.reason = str(name), reason


class Inaccessible(Unreadable):
    """File that was not read: access is denied, it is too large, or it is not a regular file."""


def read_bytes(path: Path, limit: int = LIMIT) -> bytes:
    """Return the content of a regular file of at most ``limit`` bytes.

    Raises:
        FileNotFoundError: The file does not exist.
        Inaccessible: The file cannot be read, is not a regular file, or is too large.
    """
    try:
        with untrusted_files.open_regular(path) as file:
            content = file.read(limit + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Inaccessible(path, error.strerror or str(error)) from error
    if len(content) > limit:
        raise Inaccessible(path, f"larger than {limit:,} bytes")
    return content


def read_text(path: Path, limit: int = LIMIT) -> str:
    """Return the content as :func:`read_bytes` does, decoded as UTF-8 regardless of the locale."""
    return decoded(read_bytes(path, limit), path)


def decoded(content: bytes, name: Path | str) -> str:
    """Decode UTF-8, with or without a byte order mark.

    Raises:
        Unreadable: The content is not UTF-8. The message names ``name`` and the line.
    """
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise Unreadable(name, f"line {line}: not UTF-8 text (byte {error.object[error.start]:#04x})") from None


def read_json(path: Path, finite: bool = True) -> Any:
    """Return the JSON value in a file, read by :func:`read_text` and :func:`load_json`."""
    return load_json(read_text(path), path, finite)


def read_model(path: Path, model: type[Model]) -> Model:
    """Read a JSON file as a pydantic model, with :func:`read_text` and :func:`load_model`.

    Raises:
        FileNotFoundError: The file does not exist.
        Unreadable: The file cannot be read, is not JSON, or does not match ``model``.
    """
    return load_model(read_text(path), model, path)


def load_model(text: str | bytes, model: type[Model], name: Path | str) -> Model:
    """Validate a JSON text against a pydantic model.

    Args:
        text: The JSON text.
        model: Class to validate against.
        name: Name of the text in error messages.

    Returns:
        The validated instance of ``model``.

    Raises:
        Unreadable: :func:`load_json` refuses the text, or keys are wrong. The message names the wrong keys.
    """
    load_json(text, name)
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        raise Unreadable(name, problems(error)) from None
    except (RecursionError, OverflowError) as error:  # raised by a validator of this package
        raise Unreadable(name, str(error)) from None


def problems(error: ValidationError, values: bool = True) -> str:
    """Return the wrong keys with reasons, and with their values unless the file may hold secrets."""
    errors = error.errors(include_url=False, include_context=False)
    words = [
        f"{location(problem['loc']) or 'the whole'}: "
        + (f"{shown(problem['input'])}: " if values and problem["type"] != "missing" else "")
        + problem["msg"].removeprefix("Value error, ")
        for problem in errors[:MAX_PROBLEMS]
    ]
    return "; ".join(words + ([f"and {len(errors) - len(words)} more"] if len(errors) > len(words) else []))


def location(parts: Iterable[int | str]) -> str:
    """Return the path to a key. Long or unprintable keys are shown by :func:`shown`."""
    return ".".join(part if PLAIN.fullmatch(part) else shown(part) for part in map(str, parts))


def load_json(text: str | bytes, name: Path | str, finite: bool = True) -> Any:
    """Return the value of a JSON text.

    Raises:
        Unreadable: The text is not JSON, has duplicate keys, numbers that are not finite (if they must be ``finite``)
            or have more than MAX_DIGITS digits, values nested deeper than MAX_DEPTH, or characters that UTF-8 cannot
            encode. The message names ``name``.
    """
    words = text if isinstance(text, str) else decoded(text, name)
    real = _real if finite else float
    try:
        value = json.loads(words, object_pairs_hook=_mapping, parse_int=_integer, parse_float=real, parse_constant=real)
        _require_flat(value)
        if "\\ud" in words or "\\uD" in words:
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise Unreadable(name, f"line {error.lineno}: not JSON: {error.msg}") from None
    except RecursionError:
        raise Unreadable(name, f"nested more than {MAX_DEPTH} levels deep") from None
    except UnicodeEncodeError:
        raise Unreadable(name, "half a surrogate pair (\\ud8…) is not a character") from None
    except ValueError as error:
        raise Unreadable(name, str(error)) from None
    return value


def _mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"key {shown(twice)} occurs twice")
    return mapping


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"{shown(digits)} has {len(digits):,} digits, at most {MAX_DIGITS} are read")
    return int(digits)


def _real(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{shown(digits)} is not a finite number")
    return value


def _require_flat(value: Any) -> None:
    level, depth = [value], 0
    while level:
        if depth > MAX_DEPTH:
            raise RecursionError
        level = [inner for outer in level for inner in _children(outer)]
        depth += 1


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


class _Short(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxlong, self.maxother = 2, MAX_SHOWN, MAX_SHOWN, MAX_SHOWN


def shown(value: object) -> str:
    """Return a ``repr`` for a message. Only part of a long or deep value is formatted."""
    words = _Short().repr(value)
    return words if len(words) <= MAX_SHOWN + 2 else f"{words[:MAX_SHOWN]}…"
