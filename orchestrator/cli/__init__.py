"""The command line: the only place that prints results, asks, and exits."""

import os
import platform
import sys
import traceback
from datetime import datetime
from pathlib import Path
from typing import NoReturn

import click
import typer
from rich.markup import escape

from orchestrator import __version__, progress, state
from orchestrator.cli import clusters, training
from orchestrator.errors import OrchestratorError

INTERRUPTED, BUG = 130, 3

app = typer.Typer(
    name="orchestrator",
    help="Deploy a Horovod cluster, train on it, tear it down.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
clusters.register(app)
training.register(app)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"orchestrator {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    pass


def main() -> NoReturn:
    """The console script: runs a command, turns errors into one message and an exit code (see orchestrator.errors)."""
    try:
        code = app(standalone_mode=False)
    except OrchestratorError as error:
        _say(error.message, error.hint)
        code = error.exit_code
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (KeyboardInterrupt, click.Abort):
        _say("interrupted")
        code = INTERRUPTED
    except BrokenPipeError:  # the reader of our output, `head` say, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except Exception as error:
        _say(f"a bug: {type(error).__name__}: {error}", f"please report it with {_crash_log()}")
        code = BUG
    sys.exit(code if isinstance(code, int) else 0)


def _say(message: str, hint: str = "") -> None:
    progress.console.print(f"[red]error:[/red] {escape(message)}")
    if hint:
        progress.console.print(f"[dim]{escape(hint)}[/dim]")


def _crash_log() -> Path:
    path = state.root() / f"crash-{datetime.now():%Y%m%d-%H%M%S}.log"
    versions = f"orchestrator {__version__}, Python {platform.python_version()}, {platform.platform()}\n"
    state.replace(path, versions + f"{sys.argv}\n" + traceback.format_exc())
    return path
