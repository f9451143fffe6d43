"""Help of every command in terminals of several widths."""

from typing import Any

import pytest
import typer

from orchestrator import cli, progress
from orchestrator.cli import output
from orchestrator.schema.training import MIN_SPEEDUP
from scripts.write_reference import commands

EVERY = dict(commands())


def lines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: Any, width: int) -> list[str]:
    """Return the lines of a command's help in a terminal."""
    monkeypatch.setattr(output, "console", progress.Terminal(width=width))
    command.get_help(typer.Context(command, info_name=command.name, help_option_names=["--help"]))
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("name", EVERY)
def test_narrow_terminal_shows_every_word_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    shown = lines(monkeypatch, capsys, EVERY[name], 40)
    assert max(map(len, shown)) <= 40
    texts = [text for each in EVERY[name].params for text in (each.help or "", *each.opts)]
    words = {word for text in texts for word in text.split() if len(word) < 34}
    words -= {each.name for each in EVERY[name].params}  # arguments have other names in the help
    assert {word for word in words if not any(word in line for line in shown)} == set()


@pytest.mark.parametrize(("width", "most"), [(40, 40), (80, 80), (300, 100)])
def test_lines_of_help_end_at_the_width_of_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int, most: int
) -> None:
    shown = lines(monkeypatch, capsys, EVERY["train"], width)
    assert most - 12 < max(map(len, shown)) <= most


def test_help_of_a_group_lists_its_commands_with_their_meaning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = lines(monkeypatch, capsys, typer.main.get_command(cli.app), 40)
    listed = {
        line.split()[0] for line in shown[shown.index("Commands:") + 1 :] if line.startswith("  ") and line[2] != " "
    }
    assert listed == {*cli.MODULES}


@pytest.mark.parametrize("option", ["precision", "compression"])
def test_help_of_automatic_choices_has_their_threshold(option: str) -> None:
    (text,) = (each.help for each in EVERY["train"].params if each.name == option)
    assert f"at least {round((MIN_SPEEDUP - 1) * 100)} % faster" in (text or "")
