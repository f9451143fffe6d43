"""Options for Grafana's password, which is read from a file, a prompt or the environment."""

import getpass
import os
import warnings
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.errors import ConfigError
from orchestrator.schema.bounded_files import Unreadable, read_text

MOST_OF_PASSWORD = 4096  # bytes of the file
PASSWORD_VARIABLE = "ORCHESTRATOR_MONITORING_PASSWORD"  # noqa: S105
Prompt = Annotated[
    bool,
    typer.Option(
        "--grafana-password",
        help=f"Ask for Grafana's password; without this option ${PASSWORD_VARIABLE} is used, if it is set.",
    ),
]
PasswordFile = Annotated[
    Path | None, typer.Option("--grafana-password-file", help="File whose first line is Grafana's password.")
]


def read(prompt: bool, file: Path | None) -> str | None:
    """Return the password from ``file``, else from a prompt if ``prompt``, else from the environment, else None.

    The variable is removed from the environment, so that no program started later sees it.

    Raises:
        ConfigError: The file cannot be read, or there is no terminal for the prompt.
    """
    password = os.environ.pop(PASSWORD_VARIABLE, None) or None
    if file is None:
        return _asked() if prompt else password
    try:
        return next(iter(read_text(file, MOST_OF_PASSWORD).splitlines()), "")
    except FileNotFoundError as error:
        raise ConfigError([f"--grafana-password-file: {file}: {error.strerror}"], "correct the path") from None
    except Unreadable as error:
        raise ConfigError([f"--grafana-password-file: {error}"], "name a file of one line") from None


def _asked() -> str:
    """Ask for the password twice. Raise ConfigError without a terminal, on which it could be typed unseen."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", getpass.GetPassWarning)
            return str(typer.prompt("Grafana's password", hide_input=True, confirmation_prompt=True, err=True))
    except getpass.GetPassWarning:
        typer.echo(err=True)  # ends the line of the question
        problem = "--grafana-password: there is no terminal on which the password could be typed"
        raise ConfigError([problem], f"use --grafana-password-file FILE or ${PASSWORD_VARIABLE}") from None
