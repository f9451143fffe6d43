"""What Terraform's roots declare, and roots whose provider has to be downloaded."""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import hcl2
import pytest

from orchestrator import packaged_files
from tests.contract.conftest import Root

# Every root has these, and one object of its own name.
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
    """The providers whose nodes Terraform makes."""
    return sorted(path.name for path in packaged_files.directory("terraform").iterdir() if path.name != "contract")


def blocks(root: str, kind: str) -> list[dict[str, Any]]:
    """Every ``variable``, ``resource`` or other block of terraform/<root>, as python-hcl2 reads it."""
    files = sorted((packaged_files.directory("terraform") / root).glob("*.tf"))
    return [_plain(block) for path in files for block in hcl2.loads(path.read_text()).get(kind, [])]


def _plain(value: Any) -> Any:
    """Without what one version of python-hcl2 writes and another does not: quotes, comments, marks."""
    if isinstance(value, dict):
        return {k.strip('"'): _plain(v) for k, v in value.items() if not k.startswith("__")}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value.strip('"') if isinstance(value, str) else value


def declared(root: str) -> dict[str, dict[str, Any]]:
    """The variables of terraform/<root>."""
    return {name: block for named in blocks(root, "variable") for name, block in named.items()}


def attributes(root: str) -> dict[str, str]:
    """Name and type of every attribute of the object that only this root has; a nested object's type is "object"."""
    shape = declared(root)[root]["type"].removeprefix("${object({").removesuffix("})}")
    flat = re.sub(r"\(\{.*?\}\)", "", shape)
    return dict(attribute.split(" = ") for attribute in flat.split(", "))


def resources(root: str) -> dict[str, dict[str, Any]]:
    """The resources of terraform/<root> by "type.name"."""
    pairs = [(kind, named) for block in blocks(root, "resource") for kind, named in block.items()]
    return {f"{kind}.{name}": body for kind, named in pairs for name, body in named.items()}


def initialised(terraform: str, name: str, directory: Path) -> Root:
    """A copy of terraform/<name> in ``directory``, with its provider; skips where Terraform finds none.

    It skips in CI as well: what CI has promised is Terraform, and neither a way to a registry nor a provider mirror.
    """
    ignored = shutil.ignore_patterns(".terraform*", "*.tfstate*", "*.tfvars*")
    shutil.copytree(packaged_files.directory("terraform"), directory / "terraform", ignore=ignored)
    root = Root(terraform, directory / "terraform" / name)
    if root.run("init", "-input=false", "-no-color").code != 0:
        pytest.skip(f"Terraform finds no provider {name}: neither a registry nor a provider mirror has it here")
    return root


def planned(root: Root, variables: Mapping[str, Any]) -> Any:
    """The output ``cluster`` as a plan knows it; what only an apply would know reads "ATTRIBUTE-of-NODE"."""
    root.given(variables)
    result = root.run("plan", "-input=false", "-no-color", "-out=plan")
    assert result.code == 0, result.text
    output = root.json("show", "-json", "plan")["output_changes"]["cluster"]
    for name, unknown in output["after_unknown"]["nodes"].items():
        output["after"]["nodes"][name] |= {attribute: f"{attribute}-of-{name}" for attribute in unknown}
    return output["after"]


def planned_resources(root: Root) -> dict[str, dict[str, Any]]:
    """What the latest plan would make: address and values of every resource."""
    values = root.json("show", "-json", "plan")["planned_values"]["root_module"]["resources"]
    return {resource["address"]: resource["values"] for resource in values}
