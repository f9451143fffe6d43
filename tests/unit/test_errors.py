"""Errors are an interface: their messages and exit codes."""

import errno
import os
import shlex
from pathlib import Path

import pytest

from orchestrator import errors
from orchestrator.errors import CommandFailed, ConfigError, NodesFailed, OrchestratorError


@pytest.mark.parametrize(
    ("kind", "exit_code"),
    [
        ("OrchestratorError", 1),
        ("ConfigError", 2),
        ("PreflightError", 2),
        ("StateError", 1),
        ("CommandFailed", 1),
        ("NodesFailed", 1),
        ("RunFailed", 1),
        ("RunStopped", 75),
        ("ContractError", 1),
    ],
)
def test_each_kind_of_error_has_its_exit_code(kind: str, exit_code: int) -> None:
    assert getattr(errors, kind).exit_code == exit_code


def test_every_kind_of_error_is_in_the_tree_of_the_docs() -> None:
    kinds = [name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)]
    assert len(kinds) == 9
    assert [kind for kind in kinds if kind not in str(errors.__doc__)] == []


def test_error_has_a_message_and_a_remedy() -> None:
    error = OrchestratorError("it rains", "take an umbrella")
    assert (str(error), error.message, error.hint) == ("it rains", "it rains", "take an umbrella")


def test_config_error_lists_each_problem_on_its_own_line() -> None:
    error = ConfigError(["nodes: 0: too few", "name: missing"])
    assert error.message.splitlines() == error.problems == ["nodes: 0: too few", "name: missing"]


def test_failed_command_can_be_pasted_into_a_shell() -> None:
    error = CommandFailed("ask", ["echo", "two words", "it's"], "exit code 1", ["a", "b"], Path("tool.log"))
    assert "`echo 'two words' 'it'\"'\"'s'` failed (exit code 1)" in error.message
    assert error.message.splitlines()[1:] == ["    a", "    b"]
    assert error.hint == "whole log: tool.log"


def test_failed_command_without_a_log_names_none() -> None:
    assert CommandFailed("ask", ["x"], 1, []).hint == ""


def test_failed_nodes_are_named_with_their_reasons() -> None:
    error = NodesFailed("not healthy", {"demo-head": "no disk", "demo-worker-0": "no name"})
    assert error.message.splitlines() == [
        "not healthy: demo-head, demo-worker-0",
        "    demo-head: no disk",
        "    demo-worker-0: no name",
    ]


@pytest.mark.parametrize(
    ("code", "remedy"), [(errno.ENOSPC, "free space"), (errno.EDQUOT, "larger disk quota"), (errno.EFBIG, "ulimit -f")]
)
def test_each_lack_of_space_has_its_remedy(code: int, remedy: str) -> None:
    assert remedy in errors.space_hint(f"/data: {os.strerror(code)}")
    assert errors.space_hint(f"/data: {os.strerror(errno.EACCES)}") == ""


@pytest.mark.parametrize("name", ["lab; id", "$(id)", "a b"])
def test_name_of_a_cluster_cannot_add_words_to_a_command(name: str) -> None:
    """A host that another person controls may say whose node it is, and hints are pasted into a shell."""
    assert shlex.split(errors.command("teardown", name).strip("`")) == ["orchestrator", "teardown", "--cluster", name]
    assert errors.command("teardown", "lab-1") == "`orchestrator teardown --cluster lab-1`"
