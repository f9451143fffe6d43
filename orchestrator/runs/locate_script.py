"""The script that a command of ``orchestrator run`` names, and the command as run from inside its directory."""

import os
import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from orchestrator.config import is_file
from orchestrator.errors import ConfigError

LAUNCHERS = {
    *("horovodrun", "mpirun", "mpirun.openmpi", "mpiexec", "orterun", "torchrun", "accelerate", "deepspeed"),
    "srun",
}
# With `run`, these start a program in an environment of this machine.
MANAGERS = {"conda", "hatch", "mamba", "micromamba", "pdm", "pipenv", "pixi", "poetry", "rye", "uv"}
# By `python -m`, these or a module below them.
LAUNCHER_MODULES = (
    *("torch.distributed.run", "torch.distributed.launch", "accelerate.commands", "deepspeed.launcher"),
    "horovod.runner",
)
# What is added for accelerate, whose launcher also has options of the training.
ACCELERATE = (
    "; settings of `accelerate launch` and of its configuration file are not applied: set them in Accelerator(...), or"
    " as in --env ACCELERATE_MIXED_PRECISION=bf16"
)
INTERPRETER = re.compile(r"python[\d.]*|bash|sh|env")
SETTING = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)


class Located(NamedTuple):
    """The ``directory`` to send, the ``command`` as run from inside it, and the ``name`` there; "" for a module."""

    directory: Path
    command: list[str]
    name: str = ""


def locate(argv: Sequence[str]) -> Located:
    """Locate the script that ``argv`` runs.

    The script is the first argument that ends in .py or is a local file; ``python -m module`` sends the current
    directory. A path to an interpreter becomes its name on the nodes, and Python runs a file in Python that is named
    alone. Raises ConfigError if there is no script, it cannot be executed, or a launcher is named.
    """
    if not argv:
        raise ConfigError(["run: nothing to run: `orchestrator run -- python my_script.py`"])
    _require_no_setting(argv)
    argv = _with_interpreter(_with_interpreter_of_nodes(argv))
    for position, argument in enumerate(argv):
        _require_no_launcher(argv, position)
        if argument == "-m" or module_at(argv, position):
            return Located(Path.cwd(), list(argv))
        path = Path(argument)
        if _names_file(argv, position):
            is_program = position == _program_at(argv)
            _require_no_notebook(argv, position, is_program)
            if is_program and not os.access(path, os.X_OK):
                raise ConfigError([f"run: {argument}: is not executable: `chmod +x {shlex.quote(argument)}`"])
            inside = f"./{path.name}" if is_program or path.name.startswith("-") else path.name
            command = [*argv[:position], inside, *argv[position + 1 :]]
            return Located(path.absolute().parent, command, path.name)
        if path.suffix == ".py":
            raise ConfigError([f"run: {argument}: no such file"])
    raise ConfigError(
        [f"run: no script in `{' '.join(argv)}`: name one, as in `orchestrator run -- python my_script.py`"],
        "write the command of an installed program, as `yolo train` or `make`, into a file:"
        " `orchestrator run -- bash start.sh`",
    )


def _require_no_notebook(argv: Sequence[str], position: int, is_program: bool) -> None:
    """Raise ConfigError for a notebook that is to be executed as a script; other programs may read one."""
    name = argv[position]
    if Path(name).suffix == ".ipynb" and (is_program or _program(argv[position - 1]).startswith("python")):
        raise ConfigError(
            [f"run: {name}: is a notebook, not a script"],
            f"write a script of it by `jupyter nbconvert --to script {shlex.quote(name)}`,"
            " or open it on the cluster by `orchestrator notebook`",
        )


def _require_no_setting(argv: Sequence[str]) -> None:
    """Raise ConfigError if ``argv`` begins with NAME=VALUE, which only a shell understands; the value may be secret."""
    if SETTING.fullmatch(argv[0]) and not is_file(Path(argv[0])):
        name = argv[0].partition("=")[0]
        raise ConfigError(
            [f"run: {name}=...: is a variable, not a program"], f"`orchestrator run --env {name}=VALUE -- ...` sets it"
        )


def _with_interpreter_of_nodes(argv: Sequence[str]) -> list[str]:
    """Replace the path to an interpreter, also after ``env NAME=VALUE``, by its name: the nodes have their own."""
    words = list(argv)
    for position, word in enumerate(argv):
        name = _program(word)
        if "/" in word and INTERPRETER.fullmatch(name):
            words[position] = "python" if name.startswith("python") else name
        if name != "env" and "=" not in word:
            break
    return words


def _with_interpreter(argv: Sequence[str]) -> list[str]:
    """Put "python" before a file in Python that is named alone: ``run train.py``.

    Its first line may be missing or name an interpreter of this machine, though the file can be executed.
    """
    at = _program_at(argv)
    alone = _names_file(argv, at) and Path(argv[at]).suffix == ".py"
    return [*argv[:at], "python", *argv[at:]] if alone else list(argv)


def _program_at(argv: Sequence[str]) -> int:
    """Return the position of the program that ``argv`` executes: the first word, or that after ``env NAME=VALUE``."""
    return next((position for position, word in enumerate(argv) if _program(word) not in ("", "env")), 0)


def module_at(argv: Sequence[str], position: int) -> str:
    """Return the module that the word at ``position`` executes, as ``-m module`` or ``-mmodule``; "" if it does not."""
    word = argv[position]
    if word == "-m":
        return "".join(argv[position + 1 : position + 2])
    is_option = word.startswith("-m") and any(_program(before).startswith("python") for before in argv[:position])
    return word.removeprefix("-m") if is_option else ""


def _require_no_launcher(argv: Sequence[str], position: int) -> None:
    """Raise ConfigError, with the command to use instead, if the word at ``position`` starts a launcher.

    A local file of a launcher's name is the user's own program, except in a directory ``bin``, as of .venv.
    """
    word, module = argv[position], module_at(argv, position)
    problem = "is a launcher, and `run` starts every rank itself: leave it and its options out"
    if any(f"{module}.".startswith(f"{launcher}.") for launcher in LAUNCHER_MODULES):
        named = f"-m {module}"
    elif _program(word) in MANAGERS and [*argv[position + 1 : position + 2]] == ["run"]:
        named = f"{word} run"
        problem = "starts programs of this machine's environment, and the nodes have their own: leave it out"
    elif _program(word) in LAUNCHERS and (Path(word).parent.name == "bin" or not _names_file(argv, position)):
        named = word
    else:
        return
    rest = argv[position + 1 :]
    begins = next((index for index, word in enumerate(rest) if word == "-m" or word.endswith(".py")), None)
    script = "my_script.py" if begins is None else shlex.join(rest[begins:])
    raise ConfigError(
        [f"run: {named}: {problem}"],
        f"`orchestrator run -- python {script}`; --np sets the number of ranks, --launcher names a launcher"
        + (ACCELERATE if "accelerate" in (_program(word), module.partition(".")[0]) else ""),
    )


def _program(word: str) -> str:
    """Return the name of the program that ``word`` is or is the path of; "" for NAME=VALUE, an argument of env."""
    return "" if "=" in word else Path(word).name


def _names_file(argv: Sequence[str], position: int) -> bool:
    """Tell whether the word at ``position`` is a local file; the program's is an installed one if it is no path."""
    word = argv[position]
    return is_file(Path(word)) and (position != _program_at(argv) or "/" in word or not shutil.which(word))
