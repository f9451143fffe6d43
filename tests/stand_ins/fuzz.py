"""Strategies of damaged files: any bytes, a truncated valid file, any value at any place of a document."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import yaml
from hypothesis import strategies as st

TEXT = st.text(max_size=40)
NUMBERS = st.integers() | st.integers(-(10**400), 10**400) | st.floats() | st.sampled_from([0, -1, 1e308, 2**63])
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=8,
)
TAGS = ("!!int", "!!float", "!!bool", "!!timestamp", "!!binary", "!!set", "!x")
# YAML values that a dump never writes.
WRITTEN = st.one_of(
    VALUES.map(lambda value: yaml.safe_dump(value, default_flow_style=True, width=10**9).strip().removesuffix("\n...")),
    st.tuples(st.sampled_from(["!!int", "!!float", "!!bool", "!!timestamp", "!!binary", "!!set", "!x"]), TEXT).map(
        " ".join
    ),
    st.text("[]{}&*!|>'\"%@`:,-?#~<= \tax01.", max_size=30),
)


def paths(value: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every place in a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [above, *(path for key, part in inner for path in paths(part, (*above, key)))]


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """Return a document with ``new`` at one place."""
    if not path:
        return new
    copied = value.copy()
    copied[path[0]] = replaced(value[path[0]], path[1:], new)
    return copied


def damaged(content: bytes) -> st.SearchStrategy[bytes]:
    """Generate any bytes, a truncated file, or a file with another byte."""
    positions = st.integers(0, len(content))
    cut = positions.map(lambda end: content[:end])
    other = st.tuples(positions, st.binary(max_size=3)).map(
        lambda pair: content[: pair[0]] + pair[1] + content[pair[0] + 1 :]
    )
    return st.one_of(st.binary(max_size=200), cut, other)


def damaged_json(content: bytes) -> st.SearchStrategy[bytes]:
    """Generate like :func:`damaged`, or with any value at any place."""
    document = json.loads(content)
    other = st.tuples(st.sampled_from(paths(document)), VALUES).map(
        lambda pair: json.dumps(replaced(document, *pair)).encode()
    )
    return damaged(content) | other


@contextmanager
def refused(kind: type[Exception], name: str = "", never: str = "\0", most: int = 4000) -> Iterator[None]:
    """Allow one kind of error within the context: it must contain the file's name and be short."""
    try:
        yield
        return
    except kind as error:
        message = str(error)
    assert name in message
    assert never not in message
    assert len(message) < most
