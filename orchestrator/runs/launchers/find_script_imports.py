"""Recognize the launcher that a script needs by what it imports, without executing it."""

import re
from collections.abc import Set
from typing import NamedTuple

from orchestrator.runs.launchers import python_imports
from orchestrator.runs.locate_script import module_at
from orchestrator.runs.script import Source

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
    "lightning_fabric": "torchrun",
    "transformers.Trainer": "torchrun",
    "transformers.Seq2SeqTrainer": "torchrun",
    "transformers.trainer": "torchrun",
    "sentence_transformers.SentenceTransformerTrainer": "torchrun",
    "trl": "torchrun",
    "deepspeed": "torchrun",
    "colossalai": "torchrun",
    "composer.Trainer": "torchrun",
    "fastai.distributed": "torchrun",
    "ignite.distributed": "torchrun",
    "mmengine.runner": "torchrun",
    "tensorflow.distribute": "tensorflow",
}
PARAMETER_SERVER = "tensorflow.distribute.ParameterServerStrategy"


class Needed(NamedTuple):
    """Launcher that a script needs, the module that tells, and whether it uses parameter servers."""

    launcher: str
    module: str
    parameter_servers: bool = False


def needed(source: Source) -> Needed:
    """Recognize the launcher that a script needs, from the script and the files of its directory that it imports.

    A program that is not Python's may start anything, and a script that imports none of these needs nothing. An import
    that may fail, as of ``ray`` in ``try``, decides only if no other does: scripts offer such packages as an option.
    """
    if executed(source)[0].partition(".")[0] == MPI:
        return Needed("mpirun", MPI)
    if python_file(source) is None:
        return Needed("horovod", "")
    names = imported_names(source, optional=False)
    return _decided(names) or _decided(imported_names(source)) or Needed("plain", "")


def _decided(names: Set[str]) -> Needed | None:
    """Return what the first of BY_MODULE among the imported ``names`` needs; None if none of them is."""
    servers = any(name.replace(".experimental", "") == PARAMETER_SERVER for name in names)
    for module, launcher in BY_MODULE.items():
        if any(f"{name}.".startswith(f"{module}.") for name in names):
            return Needed(launcher, module, servers and launcher == "tensorflow")
    return None


def imported_names(source: Source, *, optional: bool = True) -> set[str]:
    """Return the dotted names that the script, and the files of its directory that it imports, take from modules.

    Args:
        source: The script and its files.
        optional: Whether imports in a ``try`` that catches their failure count.

    Returns:
        The names, as ``torch.distributed.barrier``.
    """
    script = python_file(source)
    return set() if script is None else python_imports.names(script, source.files, optional=optional)


def packages(names: Set[str]) -> set[str]:
    """Return the packages of imported ``names``."""
    return {name.partition(".")[0] for name in names}


def mentions(source: Source, pattern: str) -> bool:
    """Tell whether the command, or a program or a configuration that is sent, has text that matches ``pattern``."""
    if any(re.search(pattern, argument) for argument in source.command):
        return True
    texts = (path for name, path in source.files.items() if name.endswith((".py", ".yaml", ".yml", ".json")))
    return any(re.search(pattern.encode(), python_imports.content(path)) for path in texts)


def python_file(source: Source) -> str | None:
    """Return the name of the Python file that the command executes, among the files that are sent.

    A module that is not among them, as in ``python -m cProfile train.py``, executes the first of them that follows.
    """
    module, arguments = executed(source)
    if module:
        following = (word.removeprefix("./") for word in arguments if word.endswith(".py"))
        candidates = (*python_imports.files_of(module, "__main__"), *following)
        return next((name for name in candidates if name in source.files), None)
    words = (word.removeprefix("./") for word in source.command)
    name = next((word for word in words if word in source.files), "")
    return name if name.endswith(".py") else None


def executed(source: Source) -> tuple[str, list[str]]:
    """Return the module that ``python -m`` executes, "" if the command executes a file, and the words that follow."""
    for position, word in enumerate(source.command):
        following = source.command[position + 1 :]
        if module := module_at(source.command, position):
            return module, following[word == "-m" :]
        if word.removeprefix("./") in source.files:
            return "", following
    return "", []
