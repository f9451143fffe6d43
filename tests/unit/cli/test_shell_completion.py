"""Completion of words in a shell."""

import os
import subprocess
from pathlib import Path

import pytest

from orchestrator.runs import store
from tests import builders
from tests.unit.conftest import COMMAND


def completions(words: str) -> set[str]:
    """Return what bash offers after `orchestrator` and ``words``; if these end with a space, for the next word."""
    typed = f"orchestrator {words}"
    position = len(typed.split()) - (not typed.endswith(" "))
    completion = {"COMP_WORDS": typed, "COMP_CWORD": str(position), "_ORCHESTRATOR_COMPLETE": "complete_bash"}
    finished = subprocess.run([COMMAND], env={**os.environ, **completion}, capture_output=True, text=True, check=True)
    assert finished.stderr == ""
    return set(finished.stdout.split())


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("train resn", {"resnet20", "resnet50", "resnet101"}),
        ("tear", {"teardown"}),
        ("study ma", {"malik-2018"}),
        ("study run ma", {"malik-2018"}),
        ("study stat", {"status"}),
    ],
)
def test_shell_completes_commands_and_models(words: str, offered: set[str]) -> None:
    assert completions(words) == offered


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("logs ", {"first"}),
        ("logs --cluster group ", {"second"}),
        ("results --cluster=group ", {"second"}),
        ("train --config group.yaml --resume ", {"second"}),
        ("ssh ", {"demo-head"}),
        ("ssh --cluster group demo-w", {"demo-worker-0"}),
        ("ssh --cluster ", {"default", "group"}),
    ],
)
def test_shell_completes_runs_and_nodes_of_the_chosen_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, offered: set[str]
) -> None:
    store.save(builders.deployed(nodes=1), builders.run(id="first"))
    store.save(builders.deployed("group", nodes=2), builders.run(id="second"))
    (tmp_path / "group.yaml").write_text("name: group\n")
    monkeypatch.chdir(tmp_path)
    assert completions(words) == offered


@pytest.mark.parametrize("words", ["logs ", "logs --cluster ", "ssh "])
def test_completion_without_a_usable_state_directory_offers_nothing(
    monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", os.fsdecode(b"/caf\xe9"))
    assert completions(words) == set()
