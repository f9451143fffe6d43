"""Declarations of Terraform's roots, and roots whose provider must be downloaded."""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import hcl2
import pytest

from orchestrator import packaged_files
from tests.contract.conftest import Root

# Variables of every root, which adds one object with its own name.
COMMON = {
    "name": "string",
    "id": "string",
    "nodes": "number",
    "slots": "number",
    "ssh_public_key": "string",
    "allow_from": "${list(string)}",
    "without": "${list(string)}",
}


def roots() -> list[str]:
    """List the providers whose nodes Terraform creates."""
    return sorted(path.name for path in packaged_files.directory("terraform").iterdir() if path.name != "contract")


def blocks(root: str, kind: str) -> list[dict[str, Any]]:
    """Read every ``variable``, ``resource`` or other block of terraform/<root> with python-hcl2."""
    files = sorted((packaged_files.directory("terraform") / root).glob("*.tf"))
    return [_plain(block) for path in files for block in hcl2.loads(path.read_text()).get(kind, [])]


def _plain(value: Any) -> Any:
    """Remove quotes, comments and marks, which only some versions of python-hcl2 return."""
    if isinstance(value, dict):
        return {k.strip('"'): _plain(v) for k, v in value.items() if not k.startswith("__")}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value.strip('"') if isinstance(value, str) else value


def declared(root: str) -> dict[str, dict[str, Any]]:
    """Return the variables of terraform/<root>."""
    return {name: block for named in blocks(root, "variable") for name, block in named.items()}


def attributes(root: str) -> dict[str, str]:
    """Return name and type of each attribute of the root's own object; a nested object's type is "object"."""
    shape = declared(root)[root]["type"].removeprefix("${object({").removesuffix("})}")
    flat = re.sub(r"\(\{.*?\}\)", "", shape)
    return dict(attribute.split(" = ") for attribute in flat.split(", "))


def resources(root: str) -> dict[str, dict[str, Any]]:
    """Return the resources of terraform/<root> by "type.name"."""
    pairs = [(kind, named) for block in blocks(root, "resource") for kind, named in block.items()]
    return {f"{kind}.{name}": body for kind, named in pairs for name, body in named.items()}


def initialised(terraform: str, name: str, directory: Path) -> Root:
    """Copy and initialise terraform/<name> in ``directory``; skip if Terraform cannot find its provider.

    It skips in CI too: CI guarantees Terraform, but neither a registry nor a provider mirror.
    """
    ignored = shutil.ignore_patterns(".terraform*", "*.tfstate*", "*.tfvars*")
    shutil.copytree(packaged_files.directory("terraform"), directory / "terraform", ignore=ignored)
    root = Root(terraform, directory / "terraform" / name)
    if root.run("init", "-input=false", "-no-color").code != 0:
        pytest.skip(f"Terraform finds no provider {name}: neither a registry nor a provider mirror has it here")
    return root


def planned(root: Root, variables: Mapping[str, Any]) -> Any:
    """Plan and return the output ``cluster``; values that only an apply knows read "ATTRIBUTE-of-NODE"."""
    root.write_variables(variables)
    result = root.run("plan", "-input=false", "-no-color", "-out=plan")
    assert result.code == 0, result.text
    output = root.json("show", "-json", "plan")["output_changes"]["cluster"]
    for name, unknown in output["after_unknown"]["nodes"].items():
        output["after"]["nodes"][name] |= {attribute: f"{attribute}-of-{name}" for attribute in unknown}
    return output["after"]


def planned_resources(root: Root) -> dict[str, dict[str, Any]]:
    """Return values by address of the resources that the latest plan would create."""
    values = root.json("show", "-json", "plan")["planned_values"]["root_module"]["resources"]
    return {resource["address"]: resource["values"] for resource in values}
