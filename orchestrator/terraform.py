"""The only user of python-terraform: one root, applied, read and destroyed in the state directory."""

import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from python_terraform import IsFlagged, Terraform
from python_terraform.tfstate import Tfstate

from orchestrator import assets, cluster, process, state
from orchestrator.cluster import Cluster
from orchestrator.errors import CommandFailed, PreflightError
from orchestrator.state import Home

PROGRAMS = ("terraform", "tofu")
OLDEST = (1, 5)
STATE, BACKUP = "terraform.tfstate", "terraform.tfstate.backup"
# Of the user's own settings those that say where providers come from; any other could change what our commands mean.
KEPT = ("TF_CLI_CONFIG_FILE", "TF_PLUGIN_CACHE_", "TF_TOKEN_", "TF_REGISTRY_")
_QUIET = {"TF_IN_AUTOMATION": "1", "CHECKPOINT_DISABLE": "1"}
_DONE = re.compile(r"^(\S+): (Creation|Destruction|Modifications) complete")
_ERROR, _OF_NODE = re.compile(r"^[│╷ ]*Error: (.+)"), re.compile(r"^[│ ]*with \w+\.node\[\"(.+)\"\],")
NODE = "node"  # the name of the resource that is a node, in every root


class NodesNotMade(CommandFailed):
    """An apply failed, over these nodes (by name, each with its own reason) and ``others`` that are no nodes."""

    def __init__(self, failed: CommandFailed, reasons: dict[str, str], others: int) -> None:
        super().__init__(failed.step, failed.argv, "exit code 1", failed.tail, failed.log)
        self.reasons, self.others = reasons, others


@dataclass(frozen=True)
class Change:
    """What a plan would do to one resource: "create", "update", "delete" or "replace"."""

    action: str
    kind: str
    name: str


def has_root(provider: str) -> bool:
    """Whether the nodes of ``provider`` are made by Terraform."""
    return (assets.directory("terraform") / provider).is_dir()


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
    """Raises PreflightError where Terraform is missing, broken or too old."""
    path, oldest = program(), ".".join(map(str, OLDEST))
    try:
        answer = process.run("ask Terraform's version", [path, "version", "-json"], env=_environment())
        version = str(json.loads(answer)["terraform_version"])
    except (CommandFailed, ValueError, KeyError, TypeError) as error:
        raise PreflightError(f"{path} does not say its version: {error}", f"install {oldest} or newer there") from error
    if tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < OLDEST:
        raise PreflightError(f"{path} is version {version}, {oldest} is needed", f"install {oldest} or newer")


def apply(
    place: Home, provider: str, variables: Mapping[str, Any], lost: Iterable[str], on_line: Callable[[str], None]
) -> Cluster:
    """Make what ``variables`` ask for, make the resources at the addresses ``lost`` anew, and read the Cluster.

    The root is copied into the state directory, so that a later teardown needs neither this version nor the config.
    Raises CommandFailed; NodesNotMade where it was nodes that could not be made.
    """
    _initialise(place, provider)
    _sound_state(_root(place, provider))
    _given(place, provider, variables)
    errors = _Errors(on_line)
    try:
        _run(place, provider, "apply", errors, auto_approve=IsFlagged, input=False, replace=list(lost))
    except CommandFailed as failed:
        raise errors.of_nodes(failed) from failed
    return read(place, provider)


def plan(place: Home, provider: str, variables: Mapping[str, Any], deployed: Home) -> list[Change]:
    """What an apply would change of what is ``deployed``, found out in ``place``, a directory for this alone."""
    _initialise(place, provider)
    with suppress(FileNotFoundError):
        shutil.copyfile(_root(deployed, provider) / STATE, _root(place, provider) / STATE)
    _given(place, provider, variables)
    _run(place, provider, "plan", input=False, out="plan")
    shown = [program(), "show", "-json", "plan"]
    answer = process.run("terraform show", shown, cwd=_root(place, provider), env=_environment())
    found = [_change(change) for change in json.loads(answer).get("resource_changes", [])]
    return [change for change in found if change]


def _change(resource: Mapping[str, Any]) -> Change | None:
    actions = [action for action in resource["change"]["actions"] if action not in ("no-op", "read")]
    if not actions:
        return None
    after = resource["change"].get("after") or resource["change"].get("before") or {}
    name = str(resource.get("index") or _name(after) or resource["name"])
    return Change("replace" if len(actions) > 1 else actions[0], resource["type"], name)


def _given(place: Home, provider: str, variables: Mapping[str, Any]) -> None:
    state.replace(_root(place, provider) / "terraform.tfvars.json", json.dumps(variables, indent=2) + "\n")


class _Errors:
    """Listens to an apply: what is done goes on to ``on_line``, what failed is sorted by node."""

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self.on_line, self.found = on_line, list[list[str]]()

    def __call__(self, line: str) -> None:
        error, node, done = _ERROR.match(line), _OF_NODE.match(line), _DONE.match(line)
        if error:
            self.found.append([error[1]])
        elif node and self.found:
            self.found[-1].append(node[1])
        elif done:
            self.on_line(done[1])

    def of_nodes(self, failed: CommandFailed) -> CommandFailed:
        """``failed`` as NodesNotMade, where a node is among what failed."""
        reasons = {node: said for said, *nodes in self.found for node in nodes}
        return NodesNotMade(failed, reasons, sum(len(words) == 1 for words in self.found)) if reasons else failed


def read(place: Home, provider: str) -> Cluster:
    """The Cluster as the last apply left it. Raises ContractError."""
    argv = _argv(place, provider, "output", json=IsFlagged)
    answer = process.run("terraform output", argv, cwd=_root(place, provider), env=_environment())
    return cluster.read(json.loads(answer).get("cluster", {}).get("value"))


def destroy(place: Home, provider: str, on_line: Callable[[str], None]) -> None:
    """Destroy what the state holds; nothing was ever applied is fine."""
    root = _root(place, provider)
    _sound_state(root)
    if (root / STATE).exists():
        _run(place, provider, "destroy", _Errors(on_line), auto_approve=IsFlagged, input=False)


def recorded(place: Home, provider: str) -> dict[str, str]:
    """Address and identity of what Terraform's state holds: its id, or the name that a terraform_data has in its input.

    Without what is tainted: Terraform makes that anew or drops it, and in either case no longer looks after it.
    """
    found = {}
    managed = [r for r in _sound_state(_root(place, provider)).get("resources", []) if r.get("mode") != "data"]
    for resource in managed:
        for instance in resource["instances"]:
            key = f"[{json.dumps(instance['index_key'])}]" if "index_key" in instance else ""
            identity = _identity(resource["type"], instance.get("attributes") or {})
            if identity and instance.get("status") != "tainted":
                found[f"{resource['type']}.{resource['name']}{key}"] = identity
    return found


def _sound_state(root: Path) -> dict[str, Any]:
    """Terraform's state. A broken one (of a full disk), which Terraform refuses, gives way to the one before it."""
    try:
        return dict(vars(Tfstate.load_file(str(root / STATE))))
    except ValueError:
        (root / STATE).replace(root / f"{STATE}.broken")
        if (root / BACKUP).exists():
            (root / BACKUP).replace(root / STATE)
        return _sound_state(root)


def _run(
    place: Home, provider: str, command: str, on_line: Callable[[str], None] | None = None, **options: Any
) -> None:
    process.run(
        f"terraform {command}",
        _argv(place, provider, command, **options),
        place.log("terraform"),
        cwd=_root(place, provider),
        env=_environment(),
        on_line=on_line,
    )


def _argv(place: Home, provider: str, command: str, **options: Any) -> list[str]:
    # It would read the state when it is made, and fail where that is broken: it is told of a file that is not there.
    tool = Terraform(working_dir=str(_root(place, provider)), state="none", terraform_bin_path=program())
    argv: list[str] = tool.generate_cmd_string(command, **{"no_color": IsFlagged, **options})
    return argv


def _environment() -> dict[str, str | None]:
    foreign = [name for name in os.environ if name.startswith("TF_") and not name.startswith(KEPT)]
    return {**dict.fromkeys(foreign), **_QUIET}


def _root(place: Home, provider: str) -> Path:
    return place.terraform / provider


def _initialise(place: Home, provider: str) -> None:
    """Bring the provider's root and the contract into the state directory, unless they are there and initialised."""
    sources = {
        f"{name}/{path.name}": path.read_text()
        for name in (provider, "contract")
        for path in sorted((assets.directory("terraform") / name).glob("*.tf"))
    }
    stamp = hashlib.sha256(json.dumps(sources).encode()).hexdigest()
    done = _root(place, provider) / ".terraform" / "initialised"
    if done.exists() and done.read_text() == stamp:
        return
    for name, text in sources.items():
        state.replace(place.terraform / name, text)
    _run(place, provider, "init", input=False)
    state.replace(done, stamp)


def _identity(kind: str, attributes: Mapping[str, Any]) -> str | None:
    return _name(attributes) if kind == "terraform_data" else attributes.get("id")


def _name(attributes: Mapping[str, Any]) -> str | None:
    """Of a terraform_data: as a state has its input, or as a plan has it."""
    given = attributes.get("input") or {}
    return attributes.get("name") or (given.get("value") or given).get("name")
