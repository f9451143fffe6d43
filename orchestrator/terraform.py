"""The only user of python-terraform: one root, applied, read and destroyed in the state directory."""

import filecmp
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from python_terraform import IsFlagged, Terraform

from orchestrator import assets, cluster, process, state
from orchestrator.cluster import Cluster
from orchestrator.errors import PreflightError
from orchestrator.state import Home

PROGRAMS = ("terraform", "tofu")
OLDEST = (1, 5)
_QUIET = {"TF_IN_AUTOMATION": "1", "CHECKPOINT_DISABLE": "1"}
_DONE = re.compile(r"^(\S+): (Creation|Destruction|Modifications) complete")


def program() -> str:
    """Path of Terraform, or of OpenTofu where that is what is there, on the PATH or beside our Python.

    Raises PreflightError.
    """
    places = os.pathsep.join([os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)])
    paths = [path for path in (shutil.which(name, path=places) for name in PROGRAMS) if path]
    remedy = "https://developer.hashicorp.com/terraform/install or https://opentofu.org/docs/intro/install"
    if not paths:
        raise PreflightError("neither terraform nor tofu is on the PATH", f"install one: {remedy}")
    return paths[0]


def check_version() -> None:
    """Raises PreflightError where Terraform is missing or too old."""
    path = program()
    answer = process.run("ask Terraform's version", [path, "version", "-json"], env=_QUIET)
    version = str(json.loads(answer)["terraform_version"])
    if tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise PreflightError(f"{path} is version {version}, {oldest} is needed", f"install {oldest} or newer")


def apply(
    place: Home, provider: str, variables: Mapping[str, Any], lost: Iterable[str], on_line: Callable[[str], None]
) -> Cluster:
    """Make what ``variables`` ask for, make the resources at the addresses ``lost`` anew, and read the Cluster.

    The root is copied into the state directory, so that a later teardown needs neither this version nor the config.
    """
    changed = _copy_root(place, provider)
    state.replace(_root(place, provider) / "terraform.tfvars.json", json.dumps(variables, indent=2) + "\n")
    if changed or not (_root(place, provider) / ".terraform").is_dir():
        _run(place, provider, "init", input=False)
    _run(place, provider, "apply", on_line, auto_approve=IsFlagged, input=False, replace=list(lost))
    return read(place, provider)


def read(place: Home, provider: str) -> Cluster:
    """The Cluster as the last apply left it. Raises ContractError."""
    outputs = json.loads(_run(place, provider, "output", json=IsFlagged))
    return cluster.read(outputs.get("cluster", {}).get("value"))


def destroy(place: Home, provider: str, on_line: Callable[[str], None]) -> None:
    """Destroy what the state holds; nothing was ever applied is fine."""
    if (_root(place, provider) / "terraform.tfstate").exists():
        _run(place, provider, "destroy", on_line, auto_approve=IsFlagged, input=False)


def _run(place: Home, provider: str, command: str, on_line: Callable[[str], None] | None = None, **options: Any) -> str:
    def progress(line: str) -> None:
        done = _DONE.match(line)
        if on_line and done:
            on_line(done[1])

    tool = Terraform(working_dir=str(_root(place, provider)), terraform_bin_path=program())
    argv = tool.generate_cmd_string(command, **{"no_color": IsFlagged, **options})
    return process.run(
        f"terraform {command}",
        argv,
        place.log("terraform"),
        cwd=_root(place, provider),
        env=_QUIET,
        on_line=progress,
    )


def _root(place: Home, provider: str) -> Path:
    return place.terraform / provider


def _copy_root(place: Home, provider: str) -> bool:
    """Bring the provider's root and the contract into the state directory; whether anything differed."""
    changed = False
    for name in (provider, "contract"):
        (place.terraform / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        for source in (assets.directory("terraform") / name).glob("*.tf"):
            target = place.terraform / name / source.name
            if not (target.exists() and filecmp.cmp(source, target, shallow=False)):
                state.replace(target, source.read_text())
                changed = True
    return changed


def recorded(place: Home, provider: str) -> dict[str, str]:
    """Address and name of what Terraform's state holds, as far as it has a name (terraform_data: in its input)."""
    state_file = vars(Terraform(working_dir=str(_root(place, provider))).tfstate)
    found = {}
    for resource in state_file.get("resources", []):
        for instance in resource["instances"]:
            key = f"[{json.dumps(instance['index_key'])}]" if "index_key" in instance else ""
            name = _name(instance["attributes"])
            if name:
                found[f"{resource['type']}.{resource['name']}{key}"] = name
    return found


def _name(attributes: Mapping[str, Any]) -> str | None:
    given = ((attributes.get("input") or {}).get("value") or {}).get("name")
    return attributes.get("name") or given
