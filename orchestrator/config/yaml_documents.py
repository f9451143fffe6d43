"""Reader of YAML within limits on size, depth and expansion; it refuses duplicate keys. The only user of PyYAML."""

import re
from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import ConstructorError
from yaml.nodes import MappingNode, Node, ScalarNode

from orchestrator.schema.bounded_files import MAX_DIGITS, Unreadable, decoded, read_text, shown

LIMIT = 256 << 10  # bytes: PyYAML needs seconds for more
MAX_DEPTH = 32
MAX_NODES = 20_000  # after every alias is expanded
NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
MERGE, TIMESTAMP = "tag:yaml.org,2002:merge", "tag:yaml.org,2002:timestamp"
KEY = re.compile(r"\s*(?:- )*\"?([\w.-]+)\"?\s*:")
FOREIGN = re.compile("[\\0\ud800-\udfff]")  # no path, argument or UTF-8 text can hold these
SECRET = re.compile(r"password|secret|token", re.IGNORECASE)


def read(path: Path) -> Any:
    """Return the value of a YAML file.

    Raises:
        FileNotFoundError: The file does not exist.
        Unreadable: The file cannot be used. The message names the file and the line.
    """
    return load(read_text(path, LIMIT), path)


def load(text: str | bytes, name: Path | str) -> Any:
    """Return the value of a YAML text.

    Raises:
        Unreadable: The text cannot be used. The message names ``name`` and the line.
    """
    words = text if isinstance(text, str) else decoded(text, name)
    try:
        loader = _Loader(words)
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        position = _position(words, mark.line) if mark else ""
        raise Unreadable(name, f"{position}{_message(error)}") from None
    except yaml.YAMLError as error:
        raise Unreadable(
            name, f"not YAML: {str(error).splitlines()[0]}"
        ) from None  # a character that YAML does not allow


def dump(value: Any) -> str:
    """Return a value as YAML."""
    return str(yaml.safe_dump(value))


def _position(words: str, number: int) -> str:
    lines = words.splitlines()
    match = KEY.match(lines[number]) if number < len(lines) else None
    return f"line {number + 1}: {match[1]}: " if match else f"line {number + 1}: "


def _message(error: yaml.MarkedYAMLError) -> str:
    if isinstance(error, _Refused):
        return str(error.problem)
    return f"not YAML: {', '.join(part for part in (error.context, error.problem) if part)}"


class _Refused(ConstructorError):
    """YAML that this module does not accept."""

    def __init__(self, problem: str, node: Node) -> None:
        super().__init__(None, None, problem, node.start_mark)


class _Loader(yaml.SafeLoader):
    """Load YAML safely and within limits; a date is read as text, since no key expects a date."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - as PyYAML declares it
        first: [(tag, form) for tag, form in resolvers if tag != TIMESTAMP]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise _Refused(f"nested more than {MAX_DEPTH} levels deep", ScalarNode("", "", mark, mark))
        node: Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def compose_mapping_node(self, anchor: Any) -> MappingNode:
        node: MappingNode = super().compose_mapping_node(anchor)
        visited: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if isinstance(key, ScalarNode) and key.tag != MERGE:
                if (key.tag, key.value) in visited:
                    raise _Refused(f"key {shown(key.value)} occurs twice", key)
                visited.add((key.tag, key.value))
        return node

    def get_single_node(self) -> Node | None:
        node: Node | None = super().get_single_node()
        if node is not None:
            _require_small(node)
        return node

    def construct_object(self, node: Node, deep: bool = False) -> Any:
        if node.tag in NUMBERS and len(str(node.value)) > MAX_DIGITS:
            raise _Refused(f"{_value(self, node)}a number of more than {MAX_DIGITS} digits", node)
        if isinstance(node, ScalarNode) and FOREIGN.search(node.value):
            raise _Refused("holds a NUL byte or half a surrogate pair", node)
        try:
            return super().construct_object(node, deep)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):  # PyYAML checks few scalars
            raise _Refused(f"{_value(self, node)}not of the type {node.tag.rpartition(':')[2]}", node) from None


def _value(loader: _Loader, node: Node) -> str:
    """Return the value for a message, or an empty text if the line may hold a secret."""
    line = loader.buffer.splitlines()[node.start_mark.line : node.start_mark.line + 1]
    return "" if any(SECRET.search(words) for words in line) else f"{shown(node.value)}: "


def _require_small(root: Node) -> None:
    """Raise _Refused if the document, with its aliases expanded, is too large, too deep or endless."""
    measured: dict[int, tuple[int, int]] = {}  # nodes and levels by id; 0 levels while a node is being measured

    def measure(node: Node) -> tuple[int, int]:
        if isinstance(node, ScalarNode):
            return 1, 1
        if id(node) not in measured:
            measured[id(node)] = (0, 0)
            parts = [part for pair in node.value for part in pair] if isinstance(node, MappingNode) else node.value
            sizes, levels = zip(*[measure(part) for part in parts], strict=True) if parts else ((0,), (0,))
            measured[id(node)] = (1 + sum(sizes), 1 + max(levels))
        nodes, depth = measured[id(node)]
        if not depth:
            raise _Refused("an alias stands for what holds it", node)
        if nodes > MAX_NODES or depth > MAX_DEPTH:
            limits = f"more than {MAX_NODES:,} values or {MAX_DEPTH} levels"
            raise _Refused(f"{limits} once every alias is replaced by what it stands for", node)
        return nodes, depth

    measure(root)
