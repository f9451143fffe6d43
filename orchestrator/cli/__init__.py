"""Command line: the only package that prints results, asks, and exits."""

import sys
from collections import ChainMap
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, NoReturn

import typer

from orchestrator import __version__, exit_codes
from orchestrator.cli import help_pages, process_setup, report_errors
from orchestrator.process import interrupts

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
OF_COMMANDS = ("--cluster", "--config", "-c", "--json")  # options that users write before the command


@cache
def _registered(module: str) -> Mapping[str, Any]:
    """Import ``module`` and return its commands by name."""
    commands = help_pages.Commands()
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


class _Commands(help_pages.Group):
    """Group that runs every command; an interruption from outside is neither an error nor a bug."""

    def __init__(self, **settings: Any) -> None:
        imported: Any = _ImportedOnUse()  # a ChainMap changes its first mapping alone
        super().__init__(**{**settings, "commands": ChainMap(settings["commands"], imported)})

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        word = args[0].partition("=")[0] if args and not ctx.resilient_parsing else ""
        if word in OF_COMMANDS:
            ctx.fail(f"{word} belongs after the command, as in `{ctx.command_path} status {args[0]} ...`")
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            process_setup.require_directory()
            return super().invoke(ctx)
        except (KeyboardInterrupt, EOFError, typer.Abort):
            report_errors.print_error("interrupted")
            raise typer.Exit(exit_codes.INTERRUPTED) from None
        except Exception as error:
            report_errors.name_cluster_option(error)
            raise


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
    """Run a command of the console script; turn errors into one message and an exit code."""
    process_setup.prepare()
    interrupts.keep_programs_interruptible()
    code = report_errors.exit_code_of(process_setup.require_utf8_arguments) or report_errors.exit_code_of(app)
    unwritten = report_errors.exit_code_of(sys.stdout.flush)
    sys.exit(code or unwritten)
