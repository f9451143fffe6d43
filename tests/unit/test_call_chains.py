"""The chains of calls in docs/architecture.md exist in the code, and are short."""

import ast
import importlib
import inspect
import itertools
import textwrap
from types import ModuleType
from typing import Any

import pytest

from orchestrator import packaged_files

PAGE = packaged_files.PACKAGE.parent / "docs" / "architecture.md"
CHAINS = [line.strip().split(" → ") for line in PAGE.read_text().splitlines() if line.startswith("    cli.")]
MOST_CALLS = 6


def resolve(name: str) -> Any:
    """Return the function or method ``name``, a dotted name below `orchestrator`."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            value: Any = importlib.import_module(".".join(["orchestrator", *parts[:length]]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            value = getattr(value, part)
        if not isinstance(value, ModuleType):
            return value
    raise AssertionError(f"{name}: no such function")


def mentioned(function: Any) -> set[str]:
    """Return the names that the source of ``function`` uses."""
    nodes = list(ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))))
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return attributes | {node.id for node in nodes if isinstance(node, ast.Name)}


def test_page_has_a_chain_for_each_command() -> None:
    assert {chain[0].rpartition(".")[2] for chain in CHAINS} == {"deploy", "train", "teardown"}


@pytest.mark.parametrize("chain", CHAINS, ids="-".join)
def test_each_function_of_a_chain_uses_the_next(chain: list[str]) -> None:
    for caller, callee in itertools.pairwise(chain):
        assert callee.rpartition(".")[2] in mentioned(resolve(caller)), f"{caller} does not use {callee}"


@pytest.mark.parametrize("chain", CHAINS, ids="-".join)
def test_chain_has_at_most_six_calls(chain: list[str]) -> None:
    assert len(chain) - 1 <= MOST_CALLS
