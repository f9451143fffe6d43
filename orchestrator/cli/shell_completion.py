"""Shell completion: words that do not depend on the line, and the nodes and runs of the cluster that it chooses."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import typer

from orchestrator import state
from orchestrator.cli import chosen_cluster
from orchestrator.errors import OrchestratorError
from orchestrator.runs import store


def among(words: Callable[[], list[str]] | None) -> Callable[[str], list[str]] | None:
    """Return the ``autocompletion`` of an option or argument that selects from ``words()``; None without words."""
    return (lambda incomplete: _beginning_with(incomplete, words)) if words else None


def nodes(context: typer.Context, incomplete: str) -> list[str]:
    """Return the nodes of the cluster that the line chooses, as an ``autocompletion``."""
    return _of_cluster(context, incomplete, _node_names)


def runs(context: typer.Context, incomplete: str) -> list[str]:
    """Return the runs of the cluster that the line chooses, as an ``autocompletion``."""
    return _of_cluster(context, incomplete, _run_names)


def _of_cluster(
    context: typer.Context, incomplete: str, names: Callable[[Path | None, str | None], list[str]]
) -> list[str]:
    given = context.params
    return _beginning_with(incomplete, lambda: names(given.get("config_file"), given.get("name")))


def _beginning_with(incomplete: str, words: Callable[[], list[str]]) -> list[str]:
    with suppress(OrchestratorError, OSError):  # a shell can show words only, no error
        return [word for word in words() if word.startswith(incomplete)]
    return []


def _node_names(path: Path | None, name: str | None) -> list[str]:
    record = state.read(chosen_cluster.state_dir(path, name))
    return list(record.cluster.nodes) if record and record.cluster else []


def _run_names(path: Path | None, name: str | None) -> list[str]:
    return [run.id for run in store.list_runs(chosen_cluster.state_dir(path, name))]
