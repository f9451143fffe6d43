"""Notes on files that a script imports or that its arguments name, and that are not sent with it."""

import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import gettempdir

from orchestrator.cluster import SHARED
from orchestrator.config import exists
from orchestrator.runs.launchers import find_script_imports
from orchestrator.runs.launchers.find_script_imports import imported_names, packages
from orchestrator.runs.script import Source

REQUIREMENTS = "requirements.txt"  # is found in the directory that is sent
ON_NODES = (SHARED, "/dev", "/etc", "/proc", "/sys", "/usr")  # directories that nodes have, too


def note_on_imports(source: Source) -> str:
    """Return what to tell a user whose script imports a module of a directory above its own; "" if it imports none."""
    script = find_script_imports.python_file(source)
    if script is None or find_script_imports.executed(source)[0]:
        return ""
    for root in sorted(packages(imported_names(source)) - _sent(source) - sys.stdlib_module_names):
        for above in source.directory.parents:
            if any((above / name).is_file() for name in (f"{root}.py", f"{root}/__init__.py")):
                found = f"{script} imports {root} of {above}, but only {source.directory} is sent: unless {root} is"
                return f"{found} installed, {_as_module(source, script, above)}"
    return ""


def note_on_arguments(source: Source) -> str:
    """Return what to tell a user whose arguments name files here that are not sent; "" if they name none."""
    here, sent = Path.cwd(), source.directory
    words = find_script_imports.executed(source)[1]
    values = dict.fromkeys(value for word in words for value in (word, word.partition("=")[2]))
    unsent = [value for value in values if _is_unsent(value, here, sent)]
    outside = [value for value in unsent if Path(value).is_absolute() or not _is_below(here / value, here)]
    if outside:
        copy = shlex.join(["orchestrator", "cp", outside[0], f"head:{SHARED}/"])
        found = f"{', '.join(unsent)}: found on this machine, but only {sent} is sent: if the script reads it, "
        return f"{found}copy it with `{copy}` and name {SHARED}/{(here / outside[0]).resolve().name}"
    if not unsent:
        return ""
    found = f"{', '.join(unsent)}: found in {here}, but only {sent} is sent: if the script reads it, "
    return found + (_from_here(source, here) or f"copy it to {sent} and name it relative to that directory")


def _is_unsent(value: str, here: Path, sent: Path) -> bool:
    """Tell whether ``value`` names a file or directory here that the script cannot find on the nodes.

    Those that contain the script, as ``..``, and those that every machine has are probably not data.
    """
    if not exists(here / value) or (exists(sent / value) and _is_below(sent / value, sent)):
        return False
    path = (here / value).resolve()
    anywhere = path == Path(gettempdir()).resolve() or any(path.is_relative_to(root) for root in ON_NODES)
    return not anywhere and path not in sent.resolve().parents


def _is_below(path: Path, directory: Path) -> bool:
    """Tell whether ``path``, with links followed, is in ``directory``."""
    return path.resolve().is_relative_to(directory.resolve())


def _sent(source: Source) -> set[str]:
    """Return the top-level modules among the files that are sent."""
    return {name.partition("/")[0].removesuffix(".py") for name in source.files}


def _from_here(source: Source, here: Path) -> str:
    """Return how to send all of ``here`` with a script in a directory of it; "" if it cannot be started as a module."""
    script = find_script_imports.python_file(source)
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
    if packages(imported_names(source)) & _sent(source):
        yield from ("--env", f"PYTHONPATH={directory}")
    if (launcher := find_script_imports.needed(source).launcher) != find_script_imports.needed(as_module).launcher:
        yield from ("--launcher", launcher)
    if (source.directory / REQUIREMENTS).is_file():
        yield from ("--requirements", f"{directory}/{REQUIREMENTS}")
