"""Help of commands: each option stands above its meaning. Typer's table cuts names of options in usual terminals."""

import textwrap
from collections.abc import Mapping
from typing import Any

import typer
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

from orchestrator.cli import output

WIDEST = 100  # columns
TERM = "bold cyan"


class Command(TyperCommand):
    """A command with such a help."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _print(self, ctx)


class Group(TyperGroup):
    """A group of commands with such a help."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _print(self, ctx)
        _print_members({name: self.commands[name].help or "" for name in self.list_commands(ctx)})


class Commands(typer.Typer):
    """Typer's registry of commands, in which each command and group has such a help."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"cls": Group, **settings})

    def command(self, name: str | None = None, **settings: Any) -> Any:
        return super().command(name, **{"cls": Command, **settings})


def _print(command: Any, ctx: Any) -> None:
    """Print the usage and the meaning of a command, and its arguments and options."""
    _line(_wrapped(command.get_usage(ctx), "", "  "))
    _line(f"\n{_wrapped(command.help or '', '  ', '  ')}")
    for title, kind in (("Arguments", "argument"), ("Options", "option")):
        records = [each.get_help_record(ctx) for each in command.get_params(ctx) if each.param_type_name == kind]
        shown = [record for record in records if record]  # hidden ones have none
        if shown:
            _line(f"\n{title}:", "bold")
        for names, meaning in shown:
            _line(_wrapped(names, "  ", "  "), TERM)
            _line(_wrapped(meaning, "      ", "      "))


def _print_members(meanings: Mapping[str, str]) -> None:
    """Print the commands of a group in two columns."""
    _line("\nCommands:", "bold")
    longest = max(map(len, meanings))
    for name, meaning in meanings.items():
        _line(_wrapped(" ".join([f"{name:<{longest}} ", *meaning.split()]), "  ", " " * (longest + 4)))


def _wrapped(text: str, first: str, further: str) -> str:
    """Wrap a text between words, with these indents of the first line and of further lines."""
    width = min(output.console.width, WIDEST)
    return textwrap.fill(text, width, initial_indent=first, subsequent_indent=further, break_on_hyphens=False)


def _line(text: str, style: str = "") -> None:
    output.console.print(Text(text, style))
