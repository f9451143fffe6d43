"""Names that a file in Python, and the files that it imports, take from modules; each is read once, none executed."""

import ast
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

LARGEST = 1 << 20  # bytes of a source file
ABSENT = {"ImportError", "ModuleNotFoundError", "Exception"}  # what catches the failure of an import
ROOTS = ("", "src/")  # directories of modules: that which is sent, and the usual one of a package installed from it


def names(file: str, files: Mapping[str, Path], *, optional: bool) -> set[str]:
    """Return the dotted names that ``file``, and every file that it imports, takes from modules.

    Args:
        file: Name of a file in Python.
        files: Paths of the files that may be imported, by name.
        optional: Whether imports in a ``try`` that catches their failure count.

    Returns:
        The names, as ``torch.distributed.barrier``.
    """
    return set(_names(file, files, set(), optional))


def files_of(module: str, package_file: str) -> list[str]:
    """Return the names that the file of ``module`` may have; ``package_file`` is that of a package."""
    path = module.replace(".", "/")
    return [f"{root}{path}{end}.py" for root in ROOTS for end in ("", f"/{package_file}")]


def _names(file: str, files: Mapping[str, Path], visited: set[str], optional: bool) -> Iterator[str]:
    """Yield the dotted names that ``file``, and every file that it imports, takes from modules."""
    visited.add(file)
    nodes, package = _nodes(files[file]), file.split("/")[:-1]
    aliases, left_out = {}, set() if optional else _optional(nodes)
    for node in (node for node in nodes if node not in left_out):
        for alias, name in _imported(node, package):
            aliases[alias] = name
            yield name
            for path in files_of(name, "__init__"):
                if path in files and path not in visited:
                    yield from _names(path, files, visited, optional)
    yield from (name for node in nodes if isinstance(node, ast.Attribute) for name in _dotted(node, aliases))


def _optional(nodes: Iterable[ast.AST]) -> set[ast.AST]:
    """Return what is in ``try`` of a statement that continues if an import fails."""
    tried = (node for node in nodes if isinstance(node, ast.Try) and any(map(_catches, node.handlers)))
    return {inner for node in tried for statement in node.body for inner in ast.walk(statement)}


def _catches(handler: ast.ExceptHandler) -> bool:
    """Tell whether ``handler`` catches the failure of an import and raises nothing itself."""
    caught = {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)} if handler.type else ABSENT
    return bool(caught & ABSENT) and not any(isinstance(node, ast.Raise) for node in ast.walk(handler))


def _imported(node: ast.AST, package: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the name that an import in a module of ``package`` binds, and what it stands for."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.asname or "", alias.name
            if not alias.asname:
                yield alias.name.partition(".")[0], alias.name.partition(".")[0]
    elif isinstance(node, ast.ImportFrom):
        parents = package[: max(0, len(package) - node.level + 1)] if node.level else ()
        module = [*parents, *([node.module] if node.module else [])]
        yield "", ".".join(module)
        for alias in node.names:
            yield alias.asname or alias.name, ".".join([*module, alias.name])


def _dotted(node: ast.expr, aliases: Mapping[str, str]) -> list[str]:
    """Return ``tf.distribute.X`` as ``tensorflow.distribute.X``; nothing if it is not an attribute of a module."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in aliases:
        return []
    return [".".join([aliases[node.id], *reversed(parts)])]


@cache
def _nodes(path: Path) -> list[ast.AST]:
    """Parse a file; one that is too large, nested too deep or not Python has no nodes."""
    try:
        with warnings.catch_warnings():  # of the script, as of "\\d" in a string: Python 3.12 and later print it
            warnings.simplefilter("ignore")
            return list(ast.walk(ast.parse(content(path))))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last is the parser's, for deep nesting
        return []


@cache
def content(path: Path) -> bytes:
    """Return the content of a file; nothing if it is too large or cannot be read."""
    try:
        return path.read_bytes() if path.stat().st_size <= LARGEST else b""
    except OSError:
        return b""
