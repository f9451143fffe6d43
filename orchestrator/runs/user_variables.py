"""Variables that a user sets for the ranks of a run: ``--env``, ``--env-file``, and their file on the head.

They may hold passwords, so no message shows a value, and nothing but that file has them.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.errors import ConfigError
from orchestrator.launch_layout import RAY_TOKEN
from orchestrator.runs.run_record import ENVIRONMENT, Run
from orchestrator.schema.bounded_files import Unreadable, read_text, shown
from orchestrator.ssh import Session

FILE_BYTES = 1 << 20
ENTRY_BYTES = 128 << 10  # Linux: MAX_ARG_STRLEN, of NAME=VALUE with a zero at the end
ALL_BYTES = 1 << 20  # Linux allows 2 MiB of a program's arguments and environment together
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
QUOTED = re.compile(r"""(?:'([^']*)'|"((?:[^"\\]|\\.)*)")\s*(?:#.*)?""")
ESCAPED = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "$": "$"}
RESERVED_PREFIXES = ("ORCHESTRATOR_", "OMPI_", "PMIX_", "_HOROVOD_", "RAY_AUTH_")
RESERVED = {
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK"),
    *("MASTER_ADDR", "MASTER_PORT", "TF_CONFIG"),
    *("HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE"),
    *("HOROVOD_CROSS_RANK", "HOROVOD_CROSS_SIZE", "HOROVOD_HOSTNAME", "HOROVOD_ELASTIC"),
    *("HOROVOD_CONTROLLER", "HOROVOD_CPU_OPERATIONS", "HOROVOD_GLOO_IFACE"),
    *("HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT"),
}
START_MINUTES = 2  # a run without a log, whose variables are younger, may be being started
REMOVE = f"""
while test "$#" -gt 0; do
    case $(sudo systemctl is-active "$1") in
        inactive | failed | unknown)
            if test -e "$2"/log || test "$(find "$2"/{ENVIRONMENT} -mmin +{START_MINUTES} 2> /dev/null)"; then
                rm -f "$2"/{ENVIRONMENT} "$2"/{RAY_TOKEN}
            fi ;;
    esac
    shift 2
done
"""


@dataclass(frozen=True)
class UserEnvironment:
    """Values by name of the variable, and the ``files`` that they were read from."""

    values: dict[str, str] = field(default_factory=dict, repr=False)
    files: tuple[Path, ...] = ()


def read(settings: Sequence[str], files: Sequence[Path]) -> UserEnvironment:
    """Read the variables for the ranks; later ones replace earlier ones, and settings replace those of files.

    Args:
        settings: NAME=VALUE, or NAME for the value that the variable has here.
        files: Files with a setting on each line.

    Returns:
        The variables.

    Raises:
        ConfigError: A file cannot be read, a setting cannot be used, or a variable is not set here; it names them all.
    """
    values, problems = dict[str, str](), list[str]()
    for where, setting in [*_of_files(files), *(("--env", setting) for setting in settings)]:
        try:
            name, value = _parsed(setting, literal=where == "--env")
            values[name] = value
        except ValueError as error:
            problems.append(f"{where}: {error}")
    if sum(len(os.fsencode(name + value)) + 2 for name, value in values.items()) > ALL_BYTES:
        problems.append(f"--env: more than {ALL_BYTES >> 20} MiB in all: put large values into files")
    if problems:
        raise ConfigError(problems)
    return UserEnvironment(values, tuple(files))


def _of_files(files: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """Yield the place and the text of each setting in ``files``. Raises ConfigError."""
    for file in files:
        try:
            lines = read_text(file, FILE_BYTES).split("\n")
        except FileNotFoundError as error:
            raise ConfigError([f"--env-file: {file}: {error.strerror}"], "correct the path") from None
        except Unreadable as error:
            raise ConfigError([f"--env-file: {error}"], "a setting NAME=VALUE on each line") from None
        for number, line in enumerate(lines, 1):
            setting = line.strip()
            if setting and not setting.startswith("#"):
                yield f"{file}: line {number}", re.sub(r"^export\s+", "", setting)


def _parsed(setting: str, literal: bool) -> tuple[str, str]:
    """Return name and value of a setting; ``literal`` values have no quotes and no comments. Raises ValueError."""
    name, equals, text = setting.partition("=")
    name = name if literal else name.rstrip()
    _require_name(name)
    if not equals and name not in os.environ:
        problem = f"{name} is not set in your environment: export it, or give {name}=VALUE"
        raise ValueError(problem if literal else "there is no =, and your environment has no variable of that name")
    value = os.environ[name] if not equals else text if literal else _unquoted(text)
    if "\0" in value or len(os.fsencode(f"{name}={value}")) >= ENTRY_BYTES:
        raise ValueError(f"{name}: a value has less than {ENTRY_BYTES >> 10} KiB, and no zero byte")
    return name, value


def _require_name(name: str) -> None:
    """Raise ValueError if ``name`` is no name of a variable, or of one that this program sets itself."""
    if not NAME.fullmatch(name):
        raise ValueError("the name before = must be of letters, digits and _, and not begin with a digit")
    if name in RESERVED or name.startswith(RESERVED_PREFIXES):
        raise ValueError(f"{shown(name)} is set for each rank by this program and cannot be changed")


def _unquoted(text: str) -> str:
    """Return the value in a line of a file: quoted, or up to a comment. Raises ValueError."""
    value = text.lstrip()
    if not value.startswith(("'", '"')):
        return re.split(r"\s#", text, maxsplit=1)[0].strip()
    quoted = QUOTED.fullmatch(value)
    if not quoted:
        raise ValueError("a quoted value must end in the same quote on the same line; write \\n for its line ends")
    if quoted[1] is not None:
        return quoted[1]
    return re.sub(r"\\(.)", lambda match: ESCAPED.get(match[1], match[0]), quoted[2])


def send(head: Session, run: Run, values: Mapping[str, str]) -> None:
    """Write the variables into the run's directory on the head, readable by the account of the runs alone.

    Args:
        head: Session on the head.
        run: Run with a directory.
        values: Values by name; without any, nothing is written.

    Raises:
        CommandFailed: The head cannot store them.
    """
    if values:
        argv = ["sh", "-c", 'umask 077 && cat > "$0"', f"{run.directory}/{ENVIRONMENT}"]
        head.write("send variables", argv, [json.dumps(values).encode()])


def remove(head: Session, runs: Sequence[Run]) -> None:
    """Remove the variables of those ``runs`` that have ended: a supervisor whose head died could not.

    A run has a log from its start, and those of a run that is being started stay.
    """
    if runs:
        units = (word for run in runs for word in (run.unit, run.directory))
        head.run(["sh", "-c", REMOVE, "sh", *units])
