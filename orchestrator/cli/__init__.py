"""Command line: the only package that prints results, asks, and exits."""

import platform
import re
import sys
import traceback
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import cache
from importlib import import_module
from typing import Any, NoReturn

import typer
from rich.markup import escape
from typer.core import TyperGroup

from orchestrator import __version__, end_programs, progress, state
from orchestrator.cli import options, process_setup
from orchestrator.errors import OrchestratorError, PreflightError

INTERRUPTED, BUG = 130, 3
# Commands in the order of `--help`, each with the module that registers it.
MODULES = {
    "init": "clusters",
    "plan": "clusters",
    "deploy": "clusters",
    "status": "clusters",
    "teardown": "clusters",
    "ssh": "nodes",
    "hostfile": "nodes",
    "inventory": "nodes",
    "check": "training",
    "train": "training",
    "run": "script",
    "predict": "prediction",
    "models": "models_and_datasets",
    "datasets": "models_and_datasets",
    "cp": "copy_files",
    "logs": "runs",
    "stop": "runs",
    "runs": "runs",
    "results": "runs",
    "export": "reproduction",
    "rerun": "reproduction",
    "notebook": "notebook",
    "top": "monitoring",
    "dashboard": "monitoring",
    "metrics": "monitoring",
    "study": "studies",
    "data": "data",
    "packages": "packages",
}


@cache
def _registered(module: str) -> Mapping[str, Any]:
    """Import ``module`` and return its commands by name."""
    commands = typer.Typer()
    import_module(f"{__name__}.{module}").register(commands)
    return typer.main.get_group(commands).commands


class _ImportedOnUse(Mapping[str, Any]):
    """All commands by name; looking one up imports its module alone, since all modules take half a second."""

    def __getitem__(self, name: str) -> Any:
        return _registered(MODULES[name])[name]

    def __iter__(self) -> Iterator[str]:
        return iter(MODULES)

    def __len__(self) -> int:
        return len(MODULES)


class _Commands(TyperGroup):
    """Group that runs every command; an interruption from outside is neither an error nor a bug."""

    def __init__(self, **settings: Any) -> None:
        imported: Any = _ImportedOnUse()  # a ChainMap changes its first mapping alone
        super().__init__(**{**settings, "commands": ChainMap(settings["commands"], imported)})

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    def invoke(self, ctx: Any) -> Any:
        try:
            process_setup.require_directory()
            return super().invoke(ctx)
        except (KeyboardInterrupt, EOFError, typer.Abort):
            _say("interrupted")
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    name="orchestrator",
    cls=_Commands,
    help="Deploy a Horovod cluster, train on it, tear it down.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(show: bool) -> None:
    if show:
        print(f"orchestrator {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    pass


def main() -> NoReturn:
    """Run a command of the console script; turn errors into one message and an exit code (see orchestrator.errors)."""
    process_setup.prepare()
    end_programs.keep_programs_interruptible()
    code = _outcome(process_setup.require_utf8_arguments) or _outcome(app)
    unwritten = _outcome(sys.stdout.flush)
    sys.exit(code or unwritten)


def _outcome(action: Callable[[], object]) -> int:
    """Run ``action`` and return its exit code."""
    try:
        action()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except process_setup.ReaderGone:
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        return _reported(error)
    return 0


def _reported(error: Exception) -> int:
    """Print why the command failed and return the exit code."""
    if isinstance(error, OrchestratorError):
        _say("\n".join(map(options.located, error.message.split("\n"))), error.hint)
        return error.exit_code
    if reason := process_setup.lack_of_space(error):
        _say(reason, "free space there, or set TMPDIR to a directory with free space; `ulimit -f` limits files too")
        return PreflightError.exit_code
    _say(f"a bug: {type(error).__name__}: {error}", _crash_report())
    return BUG


def _say(message: str, hint: str = "") -> None:
    progress.console.print(f"[red]error:[/red] {escape(message)}")
    if hint:
        progress.console.print(f"[dim]{escape(hint)}[/dim]")


def _arguments() -> list[str]:
    """Return the arguments of this command without the values of variables, which may be passwords."""
    pairs = zip(["", *sys.argv], sys.argv, strict=False)
    return [re.sub("=.*", "=…", word, flags=re.DOTALL) if before == "--env" else word for before, word in pairs]


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
