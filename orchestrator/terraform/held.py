"""Terraform's own state: what it looks after, and what is done where the file is broken."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from python_terraform.tfstate import Tfstate

FILE, BACKUP = "terraform.tfstate", "terraform.tfstate.backup"


def recorded(root: Path) -> dict[str, str]:
    """Address and identity of what Terraform's state holds: its id, or the name that a terraform_data has in its input.

    Without what is tainted: Terraform makes that anew or drops it, and in either case no longer looks after it.
    """
    found = {}
    managed = [r for r in sound(root).get("resources", []) if r.get("mode") != "data"]
    for resource in managed:
        for instance in resource["instances"]:
            key = f"[{json.dumps(instance['index_key'])}]" if "index_key" in instance else ""
            identity = _identity(resource["type"], instance.get("attributes") or {})
            if identity and instance.get("status") != "tainted":
                found[f"{resource['type']}.{resource['name']}{key}"] = identity
    return found


def sound(root: Path) -> dict[str, Any]:
    """Terraform's state. A broken one (of a full disk), which Terraform refuses, gives way to the one before it."""
    try:
        return dict(vars(Tfstate.load_file(str(root / FILE))))
    except ValueError:
        (root / FILE).replace(root / f"{FILE}.broken")
        if (root / BACKUP).exists():
            (root / BACKUP).replace(root / FILE)
        return sound(root)


def _identity(kind: str, attributes: Mapping[str, Any]) -> str | None:
    return name(attributes) if kind == "terraform_data" else attributes.get("id")


def name(attributes: Mapping[str, Any]) -> str | None:
    """Of a terraform_data: as a state has its input, or as a plan has it."""
    given = attributes.get("input") or {}
    return attributes.get("name") or (given.get("value") or given).get("name")
