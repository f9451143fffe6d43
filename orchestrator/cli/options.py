"""Options that several commands have: those for keys of cluster.yaml, ranges, and questions."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator import config, state
from orchestrator.cli import shell_completion
from orchestrator.errors import ConfigError, OrchestratorError
from orchestrator.schema.bounded_files import shown


def _help(meaning: str, default: Any) -> str:
    shown = f"; default: {default}" if default is not None and not isinstance(default, bool) else ""
    return f"{meaning[:1].upper()}{meaning[1:]}{shown}."


HELP = {path: _help(meaning, default) for path, meaning, default in config.every_key()}
SETTINGS = {path.rpartition(".")[2]: path for path in HELP if path.startswith(("train.", "launch."))}


def key(path: str, *names: str, complete: Callable[[], list[str]] | None = None) -> Any:
    """Return an option that overrides the key ``path`` of cluster.yaml, with that key's description and default.

    Args:
        path: The key, with dots between its parts.
        names: The option's names; by default Typer derives one from the parameter.
        complete: Returns the words for shell completion.

    Returns:
        The Typer option.
    """
    return typer.Option(*names, help=HELP[path], autocompletion=shell_completion.among(complete))


def settings(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the keys of train and launch among the ``parameters`` of a command, by key."""
    return {SETTINGS[name]: value for name, value in parameters.items() if name in SETTINGS}


def completed(help_text: str, complete: Callable[[], list[str]]) -> Any:
    """Return an argument with shell completion."""
    return typer.Argument(help=help_text, autocompletion=shell_completion.among(complete))


def between(least: float, most: float) -> Callable[[Any, Any], Any]:
    """Return the ``callback`` of an option that refuses numbers outside of these; nan too, which Typer's min takes."""

    def checked(parameter: typer.CallbackParam, value: float | None) -> float | None:
        if value is None or least <= value <= most:
            return value
        raise ConfigError(
            [f"{parameter.opts[0]}: {shown(value)}: expected a number between {least:.12g} and {most:.12g}"]
        )

    return checked


ConfigFile = Annotated[
    Path | None, typer.Option("--config", "-c", help="Configuration file; default: cluster.yaml, if it exists.")
]
Name = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        help="Name of the cluster; default: the name in cluster.yaml, or `default`.",
        autocompletion=shell_completion.among(state.cluster_names),
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]


def confirm(question: str, declined: str, yes: bool) -> None:
    """Ask ``question`` on standard error unless ``yes``; Ctrl-C interrupts the command.

    Args:
        question: What is asked.
        declined: What a no means, for the message.
        yes: Whether the user gave --yes.

    Raises:
        OrchestratorError: The answer is no, or standard input has none.
    """
    if not yes and not _agreed(question):
        raise OrchestratorError(f"{declined}: the answer to {question!r} was not yes", "--yes answers yes")


def _agreed(question: str) -> bool:
    try:
        return typer.confirm(question, err=True)
    except typer.Abort as end:
        if isinstance(end.__context__, KeyboardInterrupt):
            raise
        typer.echo(err=True)  # ends the line of the question
        return False
