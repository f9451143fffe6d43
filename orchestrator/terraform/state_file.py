"""Terraform's state: its resources, and the file to use if terraform.tfstate is lost, damaged or old."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from orchestrator import state

FILE, BACKUP = "terraform.tfstate", "terraform.tfstate.backup"


class _Instance(BaseModel):
    index_key: str | int | None = None
    status: str = ""
    attributes: dict[str, Any] | None = None


class _Resource(BaseModel):
    mode: str = ""
    type: str
    name: str
    instances: list[_Instance]


class State(BaseModel):
    """A state file. Every write raises ``serial``; states with the same ``lineage`` descend from each other."""

    version: int
    serial: int = 0
    lineage: str = ""
    resources: list[_Resource] = []

    def follows(self, other: "State") -> bool:
        """Tell whether this state is ``other`` or a successor of it."""
        return self.lineage == other.lineage and self.serial >= other.serial

    @property
    def recorded(self) -> dict[str, str]:
        """Return the identity of each resource by address: its id, or the name in the input of a terraform_data.

        Tainted resources are left out: Terraform replaces or drops them at the next apply.
        """
        return {address: identity for address, identity, tainted in self._instances() if not tainted}

    @property
    def identities(self) -> set[str]:
        """Return the identities of all resources, including tainted ones."""
        return {identity for _, identity, _ in self._instances()}

    def _instances(self) -> Iterator[tuple[str, str, bool]]:
        for resource in self.resources:
            for instance in resource.instances if resource.mode != "data" else ():
                identity = _identity(resource.type, instance.attributes or {})
                key = "" if instance.index_key is None else f"[{json.dumps(instance.index_key)}]"
                if identity:
                    yield f"{resource.type}.{resource.name}{key}", identity, instance.status == "tainted"


def load(path: Path) -> State | None:
    """Read the state in ``path``; None if there is none that is usable."""
    try:
        return State.model_validate_json(path.read_bytes())
    except (OSError, ValueError):
        return None


def current(root: Path, copy: Path) -> tuple[Path, State] | None:
    """Find the newest state and its file: Terraform's own file, unless ``copy`` is newer.

    Terraform's backup is from before the last apply, so it is read only if neither of the two is usable.
    """
    file_state, saved = load(root / FILE), load(copy)
    if file_state and (saved is None or file_state.follows(saved)):
        return root / FILE, file_state
    if saved:
        return copy, saved
    before = load(root / BACKUP)
    return (root / BACKUP, before) if before else None


def settle(root: Path, copy: Path) -> Path | None:
    """Put the newest state where Terraform reads it; return the file it was restored from, None if it was in place."""
    newest, file = current(root, copy), root / FILE
    if newest and newest[0] == file:
        return None
    if file.exists():
        file.replace(file.with_name(f"{FILE}.broken"))
    if newest:
        state.replace(file, newest[0].read_text())
    return newest[0] if newest else None


def keep(root: Path, copy: Path) -> None:
    """Update ``copy`` from Terraform's own file."""
    file = root / FILE
    if load(file) and not (copy.exists() and copy.read_bytes() == file.read_bytes()):
        state.replace(copy, file.read_text())


def _identity(kind: str, attributes: Mapping[str, Any]) -> str | None:
    identity = name(attributes) if kind == "terraform_data" else attributes.get("id")
    return identity if isinstance(identity, str) else None


def name(attributes: Mapping[str, Any]) -> str | None:
    """Return the name of a terraform_data from its input, in the form of a state or of a plan."""
    inputs = attributes.get("input") or {}
    return attributes.get("name") or (inputs.get("value") or inputs).get("name")
