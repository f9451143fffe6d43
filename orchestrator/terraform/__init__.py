"""The only user of python-terraform: one root, applied, read and destroyed in the state directory."""

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
from orchestrator.state import Home
from orchestrator.terraform import held, sources, tool
from orchestrator.terraform.held import State
from orchestrator.terraform.said import Errors, NodesNotMade
from orchestrator.terraform.sources import has_root, is_current
from orchestrator.terraform.tool import check_version, program

__all__ = [
    "NODE",
    "Change",
    "NodesNotMade",
    "State",
    "apply",
    "check_version",
    "destroy",
    "has_root",
    "is_current",
    "kept",
    "plan",
    "program",
    "read",
    "recorded",
    "state_path",
]

NODE = "node"  # the name of the resource that is a node, in every root


@dataclass(frozen=True)
class Change:
    """What a plan would do to one resource: "create", "update", "delete" or "replace"."""

    action: str
    kind: str
    name: str


def apply(
    place: Home, provider: str, variables: Mapping[str, Any], lost: Iterable[str], on_line: Callable[[str], None]
) -> Cluster:
    """Make what ``variables`` ask for, make the resources at the addresses ``lost`` anew, and read the Cluster.

    The root is copied into the state directory, so that a later teardown needs neither this version nor the config.
    Raises CommandFailed; NodesNotMade where it was nodes that could not be made.
    """
    sources.initialise(place, provider)
    _given(place, provider, variables)
    errors = Errors(on_line)
    try:
        with _keeping_its_state(place, provider):
            tool.run(place, provider, "apply", errors, auto_approve=IsFlagged, input=False, replace=list(lost))
    except CommandFailed as failed:
        raise errors.of_nodes(failed) from failed
    return read(place, provider)


@contextmanager
def _keeping_its_state(place: Home, provider: str) -> Iterator[None]:
    """Begin with the newest state that there is, and keep a copy of it, before and after."""
    root = tool.root(place, provider)
    source = held.settle(root, place.terraform_copy)
    if source:
        progress.note(f"{root / held.FILE} was missing, damaged or old: restored from {source}")
    held.keep(root, place.terraform_copy)
    try:
        yield
    finally:
        held.keep(root, place.terraform_copy)


def plan(place: Home, provider: str, variables: Mapping[str, Any], deployed: Home) -> list[Change]:
    """What an apply would change of what is ``deployed``, found out in ``place``, a directory for this alone."""
    sources.initialise(place, provider)
    newest = held.current(tool.root(deployed, provider), deployed.terraform_copy)
    if newest:
        shutil.copyfile(newest[0], tool.root(place, provider) / held.FILE)
    _given(place, provider, variables)
    tool.run(place, provider, "plan", input=False, out="plan")
    answer = tool.answer(place, provider, "show -json plan", no_color=None)  # which it would take for a second file
    found = [_change(change) for change in json.loads(answer).get("resource_changes", [])]
    return [change for change in found if change]


def _change(resource: Mapping[str, Any]) -> Change | None:
    actions = [action for action in resource["change"]["actions"] if action not in ("no-op", "read")]
    if not actions:
        return None
    after = resource["change"].get("after") or resource["change"].get("before") or {}
    name = str(resource.get("index") or held.name(after) or resource["name"])
    return Change("replace" if len(actions) > 1 else actions[0], resource["type"], name)


def _given(place: Home, provider: str, variables: Mapping[str, Any]) -> None:
    state.replace(tool.root(place, provider) / "terraform.tfvars.json", json.dumps(variables, indent=2) + "\n")


def read(place: Home, provider: str) -> Cluster:
    """The Cluster as the last apply left it. Raises ContractError."""
    answer = tool.answer(place, provider, "output", json=IsFlagged)
    return cluster.read(json.loads(answer).get("cluster", {}).get("value"))


def destroy(place: Home, provider: str, on_line: Callable[[str], None]) -> None:
    """Destroy what the state holds; nothing was ever applied is fine."""
    root = tool.root(place, provider)
    with _keeping_its_state(place, provider):
        if (root / held.FILE).exists():
            tool.run(place, provider, "destroy", Errors(on_line), auto_approve=IsFlagged, input=False)


def recorded(place: Home, provider: str) -> State:
    """What Terraform's newest state records; nothing if there is none that can be used."""
    found = held.current(tool.root(place, provider), place.terraform_copy)
    return found[1] if found else State(version=0)


def kept(place: Home) -> State | None:
    """Our copy of the state, as the last apply left it; None if there is none that can be used."""
    return held.load(place.terraform_copy)


def state_path(place: Home, provider: str) -> Path:
    """Where Terraform has its state."""
    return tool.root(place, provider) / held.FILE
