"""Notes on files that a script imports or that its arguments name, and that are not sent with it."""

import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from orchestrator.config import exists
from orchestrator.runs.launchers import script_imports
from orchestrator.runs.script import Source

REQUIREMENTS = "requirements.txt"  # is found in the directory that is sent


def note_on_imports(source: Source) -> str:
    """Return what to tell a user whose script imports a module of a directory above its own; "" if it imports none."""
    script = script_imports.python_file(source)
    if script is None or script_imports.module_of(source):
        return ""
    for root in sorted(_imported(source) - _sent(source) - sys.stdlib_module_names):
        for above in source.directory.parents:
            if any((above / name).is_file() for name in (f"{root}.py", f"{root}/__init__.py")):
                found = f"{script} imports {root} of {above}, but only {source.directory} is sent: unless {root} is"
                return f"{found} installed, {_as_module(source, script, above)}"
    return ""


def note_on_arguments(source: Source) -> str:
    """Return what to tell a user whose arguments name files here that are not sent; "" if they name none."""
    here, sent = Path.cwd(), source.directory
    script = next((index for index, word in enumerate(source.command) if word.removeprefix("./") in source.files), None)
    if sent == here or script is None:
        return ""
    values = [value for word in source.command[script + 1 :] for value in (word, word.partition("=")[2])]
    unsent = [value for value in values if exists(here / value) and not exists(sent / value)]
    if not unsent:
        return ""
    found = f"{', '.join(dict.fromkeys(unsent))}: found in {here}, but only {sent} is sent: if the script reads it, "
    return found + (_from_here(source, here) or f"copy it to {sent} and name it relative to that directory")


def _imported(source: Source) -> set[str]:
    """Return the top-level modules that the script imports."""
    return {name.partition(".")[0] for name in script_imports.imported_names(source)}


def _sent(source: Source) -> set[str]:
    """Return the top-level modules among the files that are sent."""
    return {name.partition("/")[0].removesuffix(".py") for name in source.files}


def _from_here(source: Source, here: Path) -> str:
    """Return how to send all of ``here`` with a script in a directory of it; "" if it cannot be started as a module."""
    script = script_imports.python_file(source)
    if script is None or "." in os.path.relpath(source.directory, here):
        return ""
    return _as_module(source, script, here)


def _as_module(source: Source, script: str, above: Path) -> str:
    """Return the command that starts ``script`` as a module of ``above``, as it is started now."""
    directory = os.path.relpath(source.directory, above)
    module = ".".join(Path(directory, script).with_suffix("").parts)
    command = ["python", "-m", module]
    files = {f"{directory}/{name}": path for name, path in source.files.items()}
    options = _options(source, directory, Source(above, command, files, {}))
    return f"use `{shlex.join(['orchestrator', 'run', *options, '--', *command])}` in {above}"


def _options(source: Source, directory: str, as_module: Source) -> Iterator[str]:
    """Yield the options for what ``run`` finds in the directory of a script, but not from a directory above it."""
    if _imported(source) & _sent(source):
        yield from ("--env", f"PYTHONPATH={directory}")
    if (launcher := script_imports.needed(source).launcher) != script_imports.needed(as_module).launcher:
        yield from ("--launcher", launcher)
    if (source.directory / REQUIREMENTS).is_file():
        yield from ("--requirements", f"{directory}/{REQUIREMENTS}")
