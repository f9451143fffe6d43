"""Run a command, print why it failed, and return its exit code: each error class has its own."""

import errno
import platform
import re
import sys
import traceback
from collections.abc import Callable
from datetime import datetime
from typing import Any

from rich.markup import escape

from orchestrator import __version__, exit_codes, progress, state
from orchestrator.cli import chosen_cluster, process_setup
from orchestrator.errors import ConfigError, OrchestratorError, PreflightError, space_hint
from orchestrator.schema.bounded_files import shown

VALUE = re.compile(r"^(--env=[^=]*|(?!--env=)[^=]*)=.*", re.DOTALL)  # of a variable, in the argument of --env
ACCESS = "give your account access to it, or name another path; XDG_STATE_HOME moves the state directory"
UNUSABLE_PATH = {  # remedies of errors that name a path
    errno.ENAMETOOLONG: "correct the argument or the key that has this path",
    errno.EACCES: ACCESS,
    errno.EPERM: ACCESS,
    errno.EROFS: ACCESS,
}


def exit_code_of(action: Callable[[], object]) -> int:
    """Run ``action``, print why it failed if it does, and return its exit code."""
    try:
        action()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except process_setup.ReaderGone:
        return 0
    except KeyboardInterrupt:
        return exit_codes.INTERRUPTED
    except Exception as error:
        return _reported(error)
    return 0


def _reported(error: Exception) -> int:
    """Print why the command failed and return the exit code."""
    if isinstance(error, OrchestratorError):
        print_error("\n".join(map(chosen_cluster.located, error.message.split("\n"))), error.hint)
        return error.exit_code
    if reason := process_setup.lack_of_space(error):
        remedy = space_hint(reason) or "free space there"
        print_error(reason, f"{remedy}; or set TMPDIR to a directory with free space")
        return PreflightError.exit_code
    if isinstance(error, OSError) and error.filename is not None and error.errno in UNUSABLE_PATH:
        print_error(f"{shown(error.filename)}: {error.strerror}", UNUSABLE_PATH[error.errno])
        return ConfigError.exit_code
    print_error(f"a bug: {type(error).__name__}: {error}", _crash_report())
    return exit_codes.BUG


def print_error(message: str, hint: str = "") -> None:
    """Print what failed, and what repairs it."""
    progress.console.print(f"[red]error:[/red] {escape(message)}")
    if hint:
        progress.console.print(f"[dim]{escape(hint)}[/dim]")


def name_cluster_option(error: Any) -> None:
    """Add --cluster to the message about a word too many: it often is the name of a cluster."""
    message, context = getattr(error, "message", ""), getattr(error, "ctx", None)
    has_it = context is not None and any(parameter.name == "name" for parameter in context.command.params)
    if has_it and message.startswith("Got unexpected extra argument"):
        error.message = f"{message}; --cluster NAME chooses a cluster"


def _arguments() -> list[str]:
    """Return the arguments of this command without the values of variables, which may be passwords."""
    pairs = zip(["", *sys.argv], sys.argv, strict=False)
    return [
        VALUE.sub(r"\1=…", word) if before == "--env" or word.startswith("--env=") else word for before, word in pairs
    ]


def _crash_report() -> str:
    """Return what to do about a bug: report the log with traceback and versions, or its text if no log can be kept."""
    versions = f"orchestrator {__version__}, Python {platform.python_version()}, {platform.platform()}\n"
    text = versions + f"{_arguments()}\n" + traceback.format_exc()
    try:
        path = state.root() / f"crash-{datetime.now():%Y%m%d-%H%M%S}.log"
        state.replace(path, text)
    except Exception:  # full disk, no home directory: the report must not fail
        return f"please open an issue with this text:\n{text}"
    return f"please open an issue and attach {path}"
