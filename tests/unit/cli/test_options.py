"""Flags and keys of cluster.yaml are two forms of one configuration."""

import io
import re

import pytest
import typer

from orchestrator import config
from orchestrator.cli import app, options
from orchestrator.errors import OrchestratorError

# Options outside the configuration of clusters and runs, and options whose keys have another form.
NOT_CONFIG = {"json", "config_file", "detach", "help", "resume", "grafana_password_file", "env", "env_file"}
SPELLED_OTHERWISE = {"name": "name", "model": "train.model", "grafana_password": "monitoring_password"}


def parameters(command: str) -> dict[str, str]:
    """Return the help of a command's parameters by name."""
    group = typer.main.get_command(app)
    options = group.commands[command].params  # type: ignore[attr-defined]
    return {p.name: getattr(p, "help", None) or "" for p in options if p.name not in NOT_CONFIG}


def key_of(parameter: str, help_text: str) -> str | None:
    """Return the key with an option's name and help."""
    for path, meaning, _ in config.every_key():
        if path.rpartition(".")[2] == parameter and help_text.startswith(f"{meaning[0].upper()}{meaning[1:]}"):
            return path
    return SPELLED_OTHERWISE.get(parameter)


@pytest.mark.parametrize("command", ["deploy", "train"])
def test_every_option_has_its_key_in_the_file(command: str) -> None:
    keys = {name: key_of(name, help_text) for name, help_text in parameters(command).items()}
    assert [name for name, key in keys.items() if key is None] == []
    assert len(set(keys.values())) == len(keys)


@pytest.mark.parametrize(
    ("command", "keys"),
    [
        ("deploy", r"nodes|provider|slots|local\..+|monitoring\.(enabled|grafana)|monitoring_password"),
        ("train", r"train\..+|launch\.(?!launcher|parameter_servers).+"),
    ],
)
def test_every_key_of_a_commands_sections_has_its_option(command: str, keys: str) -> None:
    options = {key_of(name, help_text) for name, help_text in parameters(command).items()}
    keys_of_sections = {path for path, _, _ in config.every_key() if re.fullmatch(keys, path)}
    assert len(keys_of_sections) >= 7
    assert keys_of_sections - options == set()


def test_every_command_has_a_description() -> None:
    group = typer.main.get_command(app)
    commands = group.commands  # type: ignore[attr-defined]
    assert {"init", "deploy", "status", "train", "run", "check", "logs", "stop", "results", "teardown"} <= set(commands)
    assert [name for name, command in commands.items() if not command.help] == []


@pytest.mark.parametrize(
    ("command", "help_text"), [("deploy", "default: 2."), ("train", "nodes, else gloo); default: auto.")]
)
def test_help_shows_the_default(command: str, help_text: str) -> None:
    assert any(text.endswith(help_text) for text in parameters(command).values())


def test_question_is_agreed_to_by_yes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    options.confirm("run it?", "nothing was started", yes=False)
    options.confirm("run it?", "nothing was started", yes=True)  # without a question


@pytest.mark.parametrize("answer", ["n\n", "\n", ""], ids=["no", "default", "end of input"])
def test_question_that_is_not_agreed_to_names_the_option(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    with pytest.raises(OrchestratorError, match="nothing was started: the answer to 'run it\\?' was not yes") as caught:
        options.confirm("run it?", "nothing was started", yes=False)
    assert caught.value.hint == "--yes answers yes"


def test_interrupted_question_interrupts_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: str) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("typer._click.termui.visible_prompt_func", interrupt)
    with pytest.raises(typer.Abort):
        options.confirm("run it?", "nothing was started", yes=False)
