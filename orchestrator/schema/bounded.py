"""Read files that a user, a cloud or another version wrote: bounded in size and depth, never waiting for a writer.

Both sides import it, so it uses the standard library and pydantic alone.
"""

import json
import math
import re
import reprlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from orchestrator import files

LIMIT = 16 << 20  # bytes: results of a very long run have a tenth of it
MAX_DEPTH = 64
MAX_DIGITS = 100  # of a number
MAX_PROBLEMS = 5  # in one message
MAX_SHOWN = 80  # characters of a value in a message
PLAIN = re.compile(r"[\w /-]{1,80}")

Model = TypeVar("Model", bound=BaseModel)


class Unreadable(ValueError):
    """A file that cannot be used. The message names the file, the place in it and the reason."""

    def __init__(self, name: Path | str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.name, self.reason = str(name), reason


class Inaccessible(Unreadable):
    """A file whose content was not looked at: it may not be read, is too large, or is no file."""


def read_bytes(path: Path, limit: int = LIMIT) -> bytes:
    """Return the content of a regular file of at most ``limit`` bytes.

    Raises FileNotFoundError if it does not exist, Unreadable for everything else.
    """
    try:
        with files.open_regular(path) as file:
            content = file.read(limit + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Inaccessible(path, error.strerror or str(error)) from error
    if len(content) > limit:
        raise Inaccessible(path, f"larger than {limit:,} bytes")
    return content


def read_text(path: Path, limit: int = LIMIT) -> str:
    """Return the content as :func:`read_bytes` does, decoded as UTF-8 whatever the locale is."""
    return decoded(read_bytes(path, limit), path)


def decoded(content: bytes, name: Path | str) -> str:
    """Decode UTF-8, with or without a byte order mark. Raises Unreadable, which says ``name`` and the line."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise Unreadable(name, f"line {line}: not UTF-8 text (byte {error.object[error.start]:#04x})") from None


def read_json(path: Path, limit: int = LIMIT) -> Any:
    """Return the JSON value in a file, as :func:`read_text` and :func:`load_json` do."""
    return load_json(read_text(path, limit), path)


def read_model(path: Path, model: type[Model], limit: int = LIMIT) -> Model:
    """Return the ``model`` in a JSON file, as :func:`read_text` and :func:`load_model` do."""
    return load_model(read_text(path, limit), model, path)


def load_model(text: str | bytes, model: type[Model], name: Path | str) -> Model:
    """Return the ``model`` in a JSON text. Raises Unreadable as :func:`load_json`, and with every key that is wrong."""
    load_json(text, name)
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        raise Unreadable(name, problems(error)) from None
    except (RecursionError, OverflowError) as error:  # of a validator of ours
        raise Unreadable(name, str(error)) from None


def problems(error: ValidationError, values: bool = True) -> str:
    """Return each key that is wrong, and why; its value too, unless the file may hold secrets."""
    found = error.errors(include_url=False, include_context=False)
    words = [
        f"{location(one['loc']) or 'the whole'}: "
        + (f"{shown(one['input'])}: " if values and one["type"] != "missing" else "")
        + one["msg"].removeprefix("Value error, ")
        for one in found[:MAX_PROBLEMS]
    ]
    return "; ".join(words + ([f"and {len(found) - len(words)} more"] if len(found) > len(words) else []))


def location(parts: Iterable[int | str]) -> str:
    """Return the path to a key; a key that is long or not printable is shown as a value is."""
    return ".".join(part if PLAIN.fullmatch(part) else shown(part) for part in map(str, parts))


def load_json(text: str | bytes, name: Path | str) -> Any:
    """Return the value of a JSON text. Raises Unreadable, which says ``name``.

    Refused are duplicate keys, numbers that are not finite or have more than MAX_DIGITS digits, values that are nested
    deeper than MAX_DEPTH, and characters that UTF-8 does not have.
    """
    words = text if isinstance(text, str) else decoded(text, name)
    try:
        value = json.loads(
            words, object_pairs_hook=_mapping, parse_int=_integer, parse_float=_real, parse_constant=_real
        )
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
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"key {shown(twice)} occurs twice")
    return found


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
    """Return the ``repr`` of a value for a message; of a long or deep one only a part is made."""
    words = _Short().repr(value)
    return words if len(words) <= MAX_SHOWN + 2 else f"{words[:MAX_SHOWN]}…"
