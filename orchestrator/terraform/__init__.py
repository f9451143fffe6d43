"""Apply, read and destroy one Terraform root in the state directory; the only user of python-terraform."""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from python_terraform import IsFlagged

from orchestrator import cluster, progress, state
from orchestrator.cluster import Cluster
from orchestrator.errors import CommandFailed
from orchestrator.state import StateDir
from orchestrator.terraform import command, sources, state_file
from orchestrator.terraform.apply_output import Errors, NodesNotCreated
from orchestrator.terraform.command import check_version, program
from orchestrator.terraform.sources import has_root, is_current
from orchestrator.terraform.state_file import State

__all__ = ["NodesNotCreated", "State", "check_version", "has_root", "is_current", "program"]


@dataclass(frozen=True)
class Change:
    """Planned change of one resource: "create", "update", "delete" or "replace"."""

    action: str
    kind: str
    name: str


def apply(
    state_dir: StateDir,
    provider: str,
    variables: Mapping[str, Any],
    lost: Iterable[str],
    on_line: Callable[[str], None],
) -> Cluster:
    """Create the resources for ``variables``, replace lost ones, and read the Cluster.

    The root is copied into the state directory, so that a later teardown needs neither this version nor the config.

    Args:
        state_dir: State directory of the cluster.
        provider: Name of the provider.
        variables: Variables of the root.
        lost: Addresses of resources to create again.
        on_line: Called with the address of each resource that is done.

    Returns:
        The Cluster.

    Raises:
        NodesNotCreated: Nodes could not be created.
        CommandFailed: Terraform failed otherwise.
        ContractError: Terraform's output is not a valid Cluster.
    """
    sources.initialise(state_dir, provider)
    _write_variables(state_dir, provider, variables)
    errors = Errors(on_line)
    try:
        with _keeping_its_state(state_dir, provider):
            command.run(state_dir, provider, "apply", errors, auto_approve=IsFlagged, input=False, replace=list(lost))
    except CommandFailed as failed:
        raise errors.of_nodes(failed) from failed
    return read(state_dir, provider)


@contextmanager
def _keeping_its_state(state_dir: StateDir, provider: str) -> Iterator[None]:
    """Start from the newest state, and keep a copy of it before and after."""
    root = command.root(state_dir, provider)
    source = state_file.settle(root, state_dir.terraform_copy)
    if source:
        progress.note(f"{root / state_file.FILE} was missing, damaged or old: restored from {source}")
    state_file.keep(root, state_dir.terraform_copy)
    try:
        yield
    finally:
        state_file.keep(root, state_dir.terraform_copy)


def plan(state_dir: StateDir, provider: str, variables: Mapping[str, Any], deployed: StateDir) -> list[Change]:
    """Find the changes that an apply would make, without touching the cluster's directory.

    Args:
        state_dir: Temporary directory for the plan alone.
        provider: Name of the provider.
        variables: Variables of the root.
        deployed: State directory of the cluster.

    Returns:
        The changes, one per resource.

    Raises:
        CommandFailed: Terraform failed.
    """
    sources.initialise(state_dir, provider)
    newest = state_file.current(command.root(deployed, provider), deployed.terraform_copy)
    if newest:
        shutil.copyfile(newest[0], command.root(state_dir, provider) / state_file.FILE)
    _write_variables(state_dir, provider, variables)
    command.run(state_dir, provider, "plan", input=False, out="plan")
    answer = command.answer(state_dir, provider, "show -json plan", no_color=None)  # else `show` takes it for a file
    changes = [_change(change) for change in json.loads(answer).get("resource_changes", [])]
    return [change for change in changes if change]


def _change(resource: Mapping[str, Any]) -> Change | None:
    actions = [action for action in resource["change"]["actions"] if action not in ("no-op", "read")]
    if not actions:
        return None
    after = resource["change"].get("after") or resource["change"].get("before") or {}
    name = str(resource.get("index") or state_file.name(after) or resource["name"])
    return Change("replace" if len(actions) > 1 else actions[0], resource["type"], name)


def _write_variables(state_dir: StateDir, provider: str, variables: Mapping[str, Any]) -> None:
    state.replace(command.root(state_dir, provider) / "terraform.tfvars.json", json.dumps(variables, indent=2) + "\n")


def read(state_dir: StateDir, provider: str) -> Cluster:
    """Read the Cluster that the last apply left. Raises ContractError."""
    answer = command.answer(state_dir, provider, "output", json=IsFlagged)
    return cluster.read(json.loads(answer).get("cluster", {}).get("value"))


def destroy(state_dir: StateDir, provider: str, on_line: Callable[[str], None]) -> None:
    """Destroy all resources in the state; do nothing if nothing was ever applied.

    Args:
        state_dir: State directory of the cluster.
        provider: Name of the provider.
        on_line: Called with the address of each resource that is done.

    Raises:
        CommandFailed: Terraform failed.
    """
    root = command.root(state_dir, provider)
    with _keeping_its_state(state_dir, provider):
        if (root / state_file.FILE).exists():
            command.run(state_dir, provider, "destroy", Errors(on_line), auto_approve=IsFlagged, input=False)


def recorded(state_dir: StateDir, provider: str) -> State:
    """Return the newest state of Terraform; an empty one if there is none that is usable."""
    current = state_file.current(command.root(state_dir, provider), state_dir.terraform_copy)
    return current[1] if current else State(version=0)


def saved_state(state_dir: StateDir) -> State | None:
    """Return the copy of the state after the last apply; None if no usable copy exists."""
    return state_file.load(state_dir.terraform_copy)


def state_path(state_dir: StateDir, provider: str) -> Path:
    """Return the path of Terraform's state."""
    return command.root(state_dir, provider) / state_file.FILE
