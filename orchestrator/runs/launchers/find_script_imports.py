"""Recognize the launcher that a script needs by what it imports, without executing it."""

import ast
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from orchestrator.runs.script import Source, module_at

MPI = "mpi4py"  # `python -m mpi4py script.py` executes the script too
# Modules and the launcher that programs with them need. The first that a script imports decides: Ray starts PyTorch's
# and Horovod's ranks itself, Horovod works under mpirun, too, and scripts for Horovod use parts of the others.
BY_MODULE = {
    "ray": "ray",
    MPI: "mpirun",
    "horovod": "horovod",
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
ROOTS = ("", "src/")  # directories of modules: that which is sent, and the usual one of a package installed from it


class Needed(NamedTuple):
    """Launcher that a script needs, the module that tells, and whether it uses parameter servers."""

    launcher: str
    module: str
    parameter_servers: bool = False


def needed(source: Source) -> Needed:
    """Recognize the launcher that a script needs, from the script and the files of its directory that it imports.

    A program that is not Python's may start anything, and a script that imports none of these needs nothing.
    """
    if module_of(source).partition(".")[0] == MPI:
        return Needed("mpirun", MPI)
    if python_file(source) is None:
        return Needed("horovod", "")
    names = imported_names(source)
    servers = any(name.replace(".experimental", "") == PARAMETER_SERVER for name in names)
    for module, launcher in BY_MODULE.items():
        if any(f"{name}.".startswith(f"{module}.") for name in names):
            return Needed(launcher, module, servers and launcher == "tensorflow")
    return Needed("plain", "")


def imported_names(source: Source) -> set[str]:
    """Return the dotted names that the script, and the files of its directory that it imports, take from modules."""
    script = python_file(source)
    return set() if script is None else set(_names(script, source.files, set()))


def mentions(source: Source, word: str) -> bool:
    """Tell whether the command, or a program or a configuration that is sent, contains ``word``."""
    if any(word in argument for argument in source.command):
        return True
    texts = (path for name, path in source.files.items() if name.endswith((".py", ".yaml", ".yml", ".json")))
    return any(word.encode() in _content(path) for path in texts)


def python_file(source: Source) -> str | None:
    """Return the name of the Python file that the command executes, among the files that are sent.

    A module that is not among them, as in ``python -m cProfile train.py``, executes the first of them that follows.
    """
    if module := module_of(source):
        following = (word.removeprefix("./") for word in arguments(source) if word.endswith(".py"))
        candidates = (*_files_of(module, "__main__"), *following)
        return next((name for name in candidates if name in source.files), None)
    words = (word.removeprefix("./") for word in source.command)
    name = next((word for word in words if word in source.files), "")
    return name if name.endswith(".py") else None


def module_of(source: Source) -> str:
    """Return the module that ``python -m`` executes; "" if the command executes a file."""
    return _split(source)[0]


def arguments(source: Source) -> list[str]:
    """Return the words after the file or the module that the command executes."""
    return _split(source)[1]


def _split(source: Source) -> tuple[str, list[str]]:
    """Return the module that the command executes, "" for a file, and the words that follow."""
    for position, word in enumerate(source.command):
        following = source.command[position + 1 :]
        if module := module_at(source.command, position):
            return module, following[word == "-m" :]
        if word.removeprefix("./") in source.files:
            return "", following
    return "", []


def _files_of(module: str, package_file: str) -> list[str]:
    """Return the names that the file of ``module`` may have; ``package_file`` is that of a package."""
    path = module.replace(".", "/")
    return [f"{root}{path}{end}.py" for root in ROOTS for end in ("", f"/{package_file}")]


def _names(file: str, files: Mapping[str, Path], visited: set[str]) -> Iterator[str]:
    """Yield the dotted names that ``file``, and every file that it imports, takes from modules."""
    visited.add(file)
    tree, package = _parsed(files[file]), file.split("/")[:-1]
    aliases = {}
    for node in ast.walk(tree):
        for alias, name in _imported(node, package):
            aliases[alias] = name
            yield name
            for path in _files_of(name, "__init__"):
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
        return ast.parse(_content(path))
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module(body=[], type_ignores=[])


def _content(path: Path) -> bytes:
    """Return the content of a file; nothing if it is too large or cannot be read."""
    try:
        return path.read_bytes() if path.stat().st_size <= LARGEST else b""
    except OSError:
        return b""
