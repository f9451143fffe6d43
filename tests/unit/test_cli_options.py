"""Flags and keys of cluster.yaml are two spellings of one configuration."""

import re

import pytest
import typer

from orchestrator import cli, config

# Options that are no part of a cluster's or a run's configuration, and the argument MODEL, whose key has another form.
NOT_CONFIG = {"json", "config_file", "detach", "help"}
SPELLED_OTHERWISE = {"name": "name", "model": "train.model"}


def parameters(command: str) -> dict[str, str]:
    """The parameters of a command with their help."""
    group = typer.main.get_command(cli.app)
    found = group.commands[command].params  # type: ignore[attr-defined]
    return {p.name: getattr(p, "help", None) or "" for p in found if p.name not in NOT_CONFIG}


def key_of(parameter: str, help_text: str) -> str | None:
    """The key whose name and meaning an option has."""
    for path, meaning, _ in config.every_key():
        if path.rpartition(".")[2] == parameter and help_text == f"{meaning[0].upper()}{meaning[1:]}.":
            return path
    return SPELLED_OTHERWISE.get(parameter)


@pytest.mark.parametrize("command", ["deploy", "train"])
def test_every_option_has_its_key_in_the_file(command: str) -> None:
    keys = {name: key_of(name, help_text) for name, help_text in parameters(command).items()}
    assert [name for name, key in keys.items() if key is None] == []
    assert len(set(keys.values())) == len(keys)


@pytest.mark.parametrize(
    ("command", "keys"),
    [("deploy", r"nodes|provider|slots|local\..+"), ("train", r"train\..+|launch\..+")],
)
def test_every_key_of_a_commands_sections_has_its_option(command: str, keys: str) -> None:
    options = {key_of(name, help_text) for name, help_text in parameters(command).items()}
    asked = {path for path, _, _ in config.every_key() if re.fullmatch(keys, path)}
    assert len(asked) >= 7
    assert asked - options == set()


def test_every_command_says_what_it_does() -> None:
    group = typer.main.get_command(cli.app)
    commands = group.commands  # type: ignore[attr-defined]
    assert {"init", "deploy", "status", "train", "run", "check", "logs", "stop", "results", "teardown"} <= set(commands)
    assert [name for name, command in commands.items() if not command.help] == []
