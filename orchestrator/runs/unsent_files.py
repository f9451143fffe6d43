"""Notes on files that a script imports or that its arguments name, and that are not sent with it."""

import os
import shlex
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import gettempdir

from orchestrator.cluster import SHARED
from orchestrator.config import exists
from orchestrator.runs import secret_files
from orchestrator.runs.launchers import find_script_imports
from orchestrator.runs.launchers.find_script_imports import imported_names, packages
from orchestrator.runs.script import Source
from orchestrator.runs.sent_files import IGNORE

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
    values = dict.fromkeys(value for word in words for value in (word, word.partition("=")[2]) if value)
    unsent = [value for value in values if _is_unsent(value, here, sent)]
    outside = [value for value in unsent if Path(value).is_absolute() or not _is_below(here / value, here)]
    if outside:
        found = f"{', '.join(unsent)}: found on this machine, but only {sent} is sent: if the script reads it, "
        return found + _copy(outside[0], here)
    if not unsent:
        return _note_on_own_files(values, here, source)
    found = f"{', '.join(unsent)}: found in {here}, but only {sent} is sent: if the script reads it, "
    return found + (_from_here(source, here) or f"copy it to {sent} and name it relative to that directory")


def _note_on_own_files(values: Iterable[str], here: Path, source: Source) -> str:
    """Return what to tell a user if ``values`` name files in the directory that is sent, but the script finds none.

    They are ignored, or their paths are those of this machine.
    """
    sent = source.directory.resolve()
    paths = {value: (here / value).resolve() for value in values if exists(here / value)}
    near = {value: path for value, path in paths.items() if path.is_relative_to(sent) and not _is_anywhere(path)}
    own = {value: str(path.relative_to(sent)) for value, path in near.items()}
    if ignored := [value for value, name in own.items() if _is_ignored(name, source)]:
        reason = f"not sent, since hidden, a cache or in {IGNORE}"
        return f"{', '.join(ignored)}: {reason}: if the script reads it, {_copy(ignored[0], here)}"
    for value, name in own.items():
        if Path(value).is_absolute() or os.path.normpath(value).startswith(".."):
            return f"{value}: the nodes have no such path: if the script reads it, name it {name}, relative to {sent}"
    return ""


def _is_ignored(name: str, source: Source) -> bool:
    """Tell whether a file in the script's directory is not sent, or nothing of a directory that is not empty.

    Files with credentials do not count: they should stay on this machine.
    """
    if name == "." or name in source.left_out or any(f"{file}/".startswith(f"{name}/") for file in source.files):
        return False
    path = source.directory / name
    with suppress(OSError):
        return any(path.iterdir()) if path.is_dir() else not secret_files.reason(path)
    return False


def _copy(value: str, here: Path) -> str:
    """Return the remedy for a file here that the script reads."""
    copy = shlex.join(["orchestrator", "cp", value, f"head:{SHARED}/"])
    return f"copy it with `{copy}` and name {SHARED}/{(here / value).resolve().name}"


def _is_unsent(value: str, here: Path, sent: Path) -> bool:
    """Tell whether ``value`` names a file or directory here that is not in the directory that is sent.

    Those that contain the script, as ``..``, and those that every machine has are probably not data.
    """
    if not exists(here / value) or (exists(sent / value) and _is_below(sent / value, sent)):
        return False
    path = (here / value).resolve()
    return not _is_anywhere(path) and path not in sent.resolve().parents


def _is_anywhere(path: Path) -> bool:
    """Tell whether nodes probably have ``path``, too."""
    return path == Path(gettempdir()).resolve() or any(path.is_relative_to(root) for root in ON_NODES)


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
