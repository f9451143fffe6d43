"""Recognize the launcher that a script needs by what it imports, without executing it."""

import ast
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from orchestrator.runs.script import Source

MPI = "mpi4py"  # `python -m mpi4py script.py` executes the script too
# Modules and the launcher that programs with them need. The first that a script imports decides: Ray starts PyTorch's
# and Horovod's ranks itself, and scripts for Horovod use parts of the others.
BY_MODULE = {
    "ray": "ray",
    "horovod": "horovod",
    MPI: "mpirun",
    "torch.distributed": "torchrun",
    "torch.nn.parallel.DistributedDataParallel": "torchrun",
    "lightning": "torchrun",
    "pytorch_lightning": "torchrun",
    "accelerate": "torchrun",
    "transformers.Trainer": "torchrun",
    "transformers.Seq2SeqTrainer": "torchrun",
    "trl": "torchrun",
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
        return Needed("mpirun", MPI) if _module(source).partition(".")[0] == MPI else Needed("horovod", "")
    names = set(_names(script, source.files, set()))
    servers = any(name.replace(".experimental", "") == PARAMETER_SERVER for name in names)
    for module, launcher in BY_MODULE.items():
        if any(f"{name}.".startswith(f"{module}.") for name in names):
            return Needed(launcher, module, servers and launcher == "tensorflow")
    return Needed("plain", "")


def unsent(source: Source) -> str:
    """Return what to tell a user whose script imports a module of a directory above its own; "" if it imports none."""
    script = _script(source)
    if script is None or _module(source):
        return ""
    imported = {name.partition(".")[0] for name in _names(script, source.files, set())}
    sent = {name.partition("/")[0].removesuffix(".py") for name in source.files}
    for root in sorted(imported - sent - sys.stdlib_module_names):
        for above in source.directory.parents:
            if any((above / name).is_file() for name in (f"{root}.py", f"{root}/__init__.py")):
                return _remedy(source.directory / script, root, above)
    return ""


def unsent_arguments(source: Source) -> str:
    """Return what to tell a user whose arguments name files here that are not sent; "" if they name none."""
    here, sent = Path.cwd(), source.directory
    script = next((index for index, word in enumerate(source.command) if word.removeprefix("./") in source.files), None)
    if sent == here or script is None:
        return ""
    values = [value for word in source.command[script + 1 :] for value in (word, word.partition("=")[2])]
    unsent = [value for value in values if _exists(here / value) and not _exists(sent / value)]
    if not unsent:
        return ""
    found = f"{', '.join(dict.fromkeys(unsent))}: found in {here}, but only {sent} is sent: if the script reads it, "
    return found + (_from_here(source, here) or f"copy it to {sent} and name it relative to that directory")


def _exists(path: Path) -> bool:
    """Tell whether ``path`` exists; an argument may be too long for a path."""
    with suppress(OSError):
        return path.exists()
    return False


def _from_here(source: Source, here: Path) -> str:
    """Return how to send all of ``here`` with a script in a directory of it; "" if it cannot be started as a module."""
    script, directory = _script(source), os.path.relpath(source.directory, here)
    if script is None or "." in directory:
        return ""
    imported = {name.partition(".")[0] for name in _names(script, source.files, set())}
    siblings = imported & {name.partition("/")[0].removesuffix(".py") for name in source.files}
    return _as_module(here / directory / script, here, f"--env PYTHONPATH={directory} " if siblings else "")


def _remedy(script: Path, root: str, above: Path) -> str:
    return (
        f"{script.name} imports {root} of {above}, but only {script.parent} is sent: unless {root} is installed,"
        f" {_as_module(script, above)}"
    )


def _as_module(script: Path, above: Path, options: str = "") -> str:
    module = ".".join(script.relative_to(above).with_suffix("").parts)
    return f"use `orchestrator run {options}-- python -m {module}` in {above}"


def _script(source: Source) -> str | None:
    """Return the name of the Python file that the command executes, among the files that are sent."""
    if path := _module(source).replace(".", "/"):
        return next((name for name in (f"{path}.py", f"{path}/__main__.py") if name in source.files), None)
    words = (word.removeprefix("./") for word in source.command)
    name = next((word for word in words if word in source.files), "")
    return name if name.endswith(".py") else None


def _module(source: Source) -> str:
    """Return the module that ``python -m`` executes; "" if the command executes a file."""
    for position, word in enumerate(source.command):
        if word == "-m":
            return "".join(source.command[position + 1 : position + 2])
        if word.removeprefix("./") in source.files:
            break
    return ""


def _names(file: str, files: Mapping[str, Path], visited: set[str]) -> Iterator[str]:
    """Yield the dotted names that ``file``, and every file that it imports, takes from modules."""
    visited.add(file)
    tree, package = _parsed(files[file]), file.split("/")[:-1]
    aliases = {}
    for node in ast.walk(tree):
        for alias, name in _imported(node, package):
            aliases[alias] = name
            yield name
            for path in (f"{name.replace('.', '/')}.py", f"{name.replace('.', '/')}/__init__.py"):
                if path in files and path not in visited:
                    yield from _names(path, files, visited)
    yield from (name for node in ast.walk(tree) if isinstance(node, ast.Attribute) for name in _dotted(node, aliases))


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


def _parsed(path: Path) -> ast.AST:
    """Parse a file; one that is too large or is not Python imports nothing."""
    try:
        return ast.parse(path.read_bytes() if path.stat().st_size <= LARGEST else b"")
    except (OSError, SyntaxError, ValueError, RecursionError):
        return ast.Module(body=[], type_ignores=[])
