"""Recognize the launcher that a script needs by what it imports, without executing it."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from orchestrator.runs.script import Source

# Modules and the launcher that programs with them need. The first that a script imports decides: Ray starts PyTorch's
# and Horovod's ranks itself, and scripts for Horovod use parts of the others.
BY_MODULE = {
    "ray": "ray",
    "horovod": "horovod",
    "mpi4py": "mpirun",
    "torch.distributed": "torchrun",
    "torch.nn.parallel.DistributedDataParallel": "torchrun",
    "lightning": "torchrun",
    "pytorch_lightning": "torchrun",
    "accelerate": "torchrun",
    "deepspeed": "torchrun",
    "tensorflow.distribute": "tensorflow",
}
PARAMETER_SERVER = "tensorflow.distribute.ParameterServerStrategy"
LARGEST = 1 << 20  # bytes of a source file


class Needed(NamedTuple):
    """Launcher that a script needs, the module that tells, and whether it uses parameter servers."""

    launcher: str
    module: str
    parameter_servers: bool = False


def needed(source: Source) -> Needed:
    """Recognize the launcher that a script needs, from the script and the files of its directory that it imports.

    A program that is not Python's may start anything, and a script that imports none of these needs nothing.
    """
    script = _script(source)
    if script is None:
        return Needed("horovod", "")
    names = set(_names(script, source.files, set()))
    servers = any(name.replace(".experimental", "") == PARAMETER_SERVER for name in names)
    for module, launcher in BY_MODULE.items():
        if any(f"{name}.".startswith(f"{module}.") for name in names):
            return Needed(launcher, module, servers and launcher == "tensorflow")
    return Needed("plain", "")


def _script(source: Source) -> str | None:
    """Return the name of the Python file that the command executes, among the files that are sent."""
    for position, word in enumerate(source.command):
        if word == "-m":
            module = "".join(source.command[position + 1 : position + 2]).replace(".", "/")
            return next((name for name in (f"{module}.py", f"{module}/__main__.py") if name in source.files), None)
        if word.removeprefix("./") in source.files:
            return word.removeprefix("./") if word.endswith(".py") else None
    return None


def _names(file: str, files: Mapping[str, Path], visited: set[str]) -> Iterator[str]:
    """Yield the dotted names that ``file``, and every file that it imports, takes from modules."""
    visited.add(file)
    tree = _parsed(files[file])
    aliases = {}
    for node in ast.walk(tree):
        for alias, name in _imported(node):
            aliases[alias] = name
            yield name
            for path in (f"{name.replace('.', '/')}.py", f"{name.replace('.', '/')}/__init__.py"):
                if path in files and path not in visited:
                    yield from _names(path, files, visited)
    yield from (name for node in ast.walk(tree) if isinstance(node, ast.Attribute) for name in _dotted(node, aliases))


def _imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the name that an import binds, and what it stands for."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.asname or "", alias.name
            if not alias.asname:
                yield alias.name.partition(".")[0], alias.name.partition(".")[0]
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield "", node.module
        for alias in node.names:
            yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _dotted(node: ast.expr, aliases: Mapping[str, str]) -> list[str]:
    """Return ``tf.distribute.X`` as ``tensorflow.distribute.X``; nothing if it is not an attribute of a module."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in aliases:
        return []
    return [".".join([aliases[node.id], *reversed(parts)])]


def _parsed(path: Path) -> ast.AST:
    """Parse a file; one that is too large or is not Python imports nothing."""
    try:
        return ast.parse(path.read_bytes() if path.stat().st_size <= LARGEST else b"")
    except (OSError, SyntaxError, ValueError, RecursionError):
        return ast.Module(body=[], type_ignores=[])
