"""Record where a run came from as it starts, so that it can be exported once its cluster is gone.

Nothing of cluster.yaml is recorded but the keys in PUBLIC, and of variables for ranks their names alone.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, StringConstraints

from orchestrator import __version__, packaged_files, process, providers, state
from orchestrator.cluster import Cluster
from orchestrator.docker import context, images
from orchestrator.docker.engine import Engine
from orchestrator.errors import OrchestratorError
from orchestrator.runs.run_record import Run
from orchestrator.schema import Hardware
from orchestrator.schema.file_model import File
from orchestrator.state import Record, StateDir

FILE = "provenance.json"
GIT_SECONDS = 10.0
PROGRAM = re.compile(r"filter\..*\.(?:clean|process)\n", re.IGNORECASE | re.DOTALL)  # names that git config prints
LFS = re.compile(r"git-lfs (?:clean -- %f|filter-process)")
# Without "." and "..": archives may come from other people.
DirectoryName = Annotated[str, StringConstraints(pattern=r"^[^/.\x00][^/\x00]*(/[^/.\x00][^/\x00]*)*$")]
PUBLIC = (
    *("provider", "nodes", "slots", "framework", "image", "gpu.driver", "gpu.architecture"),
    *("local.cpus", "local.memory", "local.base_image"),
    *("openstack.image", "openstack.flavor", "openstack.head_flavor", "openstack.gpus", "openstack.volume_type"),
    *("gcp.image", "gcp.machine_type", "gcp.head_machine_type", "gcp.accelerator", "gcp.accelerators"),
    *("gcp.disk_type", "gcp.spot", "gcp.compact", "hosts.storage", "hosts.trainer"),
)


class Commit(File):
    """State of a directory in git; ``changed``: files of it differ from the commit, or are not in it."""

    commit: str
    changed: bool


class NodeRecord(File):
    """Node of the cluster as the run started."""

    role: Literal["head", "worker"]
    cpus: float
    gpus: int
    slots: int
    hardware: Hardware | None = None


class Provenance(File):
    """Content of provenance.json.

    Attributes:
        orchestrator: Version of this program.
        code: Commit of this program, if it runs from a checkout.
        script: Commit of the directory of a user's script.
        settings: Keys of cluster.yaml that say what the nodes are.
        trainer: Digest of the build context of the nodes' image.
        image: Id of the image on the Docker Engine of the machine that started the run, if it has it.
        image_files: SHA-256 of each file that the image was built from.
        nodes: Nodes by name.
        variables: Names of the variables that the user set for the ranks.
        directories: Names of directories without files in the run's directory.
    """

    version: Literal[1] = 1
    orchestrator: str = __version__
    code: Commit | None = None
    script: Commit | None = None
    settings: dict[str, JsonValue] = Field({})
    trainer: str | None = None
    image: str | None = None
    image_files: dict[str, str] = Field({})
    nodes: dict[str, NodeRecord] = Field({})
    variables: list[str] = Field([])
    directories: list[DirectoryName] = Field([])


def record(
    state_dir: StateDir, cluster: Cluster, run: Run, files: Mapping[str, Path], variables: Iterable[str]
) -> None:
    """Record where a run that starts comes from.

    Args:
        state_dir: State directory of the cluster.
        cluster: Deployed cluster.
        run: Run with the hardware of the nodes.
        files: Files and directories without content that are sent for it, by name.
        variables: Names of the variables for its ranks.
    """
    nodes = {
        name: NodeRecord(
            role=node.role, cpus=node.cpus, gpus=node.gpus, slots=node.slots, hardware=run.hardware.get(name)
        )
        for name, node in cluster.nodes.items()
    }
    script = _script_directory(files)
    provenance = Provenance(
        code=commit(packaged_files.PACKAGE.parent),
        script=commit(script) if script else None,
        nodes=nodes,
        variables=sorted(variables),
        directories=[name for name, path in files.items() if path.is_dir() and name.isprintable()],  # JSON is UTF-8
        **_of_record(state.read(state_dir)),
    )
    state.replace(state_dir.runs / run.id / FILE, provenance.model_dump_json(indent=2) + "\n")


def _script_directory(files: Mapping[str, Path]) -> Path | None:
    """Return the directory of a script, by a file that is sent from it; None if none is sent in a directory."""
    name = next((name for name in files if "/" in name), None)
    return files[name].parents[name.count("/") - 1] if name else None


def _of_record(record: Record | None) -> dict[str, Any]:
    """Return the fields that follow from the record of the cluster."""
    if record is None:
        return {}
    digest, target = (
        providers.of(record).trainer_digest(record),
        "node" if providers.of_one_machine(record) else "trainer",
    )
    image = None
    with suppress(OrchestratorError):  # the image may have been built on another machine
        image = images.find(Engine(), f"orchestrator-{target}:{digest}")
    return {
        "settings": settings(record.config),
        "trainer": digest,
        "image": image,
        "image_files": {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in context.inputs()},
    }


def settings(config: Mapping[str, Any]) -> dict[str, JsonValue]:
    """Return the values of the keys in PUBLIC that are set; of the path of a Dockerfile its name."""
    values: dict[str, JsonValue] = {}
    for key in PUBLIC:
        section, _, name = key.rpartition(".")
        value = (config.get(section) or {}).get(name) if section else config.get(name)
        if value is not None and (not section or section in (config.get("provider"), "gpu")):
            values[key] = Path(value).name if key == "image" and str(value).startswith("/") else value
    return values


def commit(directory: Path) -> Commit | None:
    """Return the state of ``directory`` in git; None if it is in no checkout, or git is missing.

    If settings of the checkout, which may be another person's, name programs that git would start to compare files, the
    files count as changed.
    """
    with suppress(OrchestratorError):
        if _has_programs(directory):
            return Commit(commit=_git(directory, "rev-parse", "--verify", "HEAD").strip(), changed=True)
        status = ["status", "--porcelain=v2", "--branch", "--ignore-submodules=dirty", "--", "."]
        lines = _git(directory, *status).splitlines()
        ids = [line.split()[-1] for line in lines if line.startswith("# branch.oid ")]
        if ids and ids[0] != "(initial)":
            return Commit(commit=ids[0], changed=any(line and not line.startswith("#") for line in lines))
    return None


def _has_programs(directory: Path) -> bool:
    """Return whether the checkout itself, not the user's own settings, names filters other than those of Git LFS."""
    settings = _git(directory, "config", "--null", "--show-scope", "--list").split("\0")
    filters = [
        value.partition("\n")[2]
        for scope, value in zip(settings[::2], settings[1::2], strict=False)
        if scope not in ("system", "global", "command") and PROGRAM.match(value)
    ]
    return not all(LFS.fullmatch(command) for command in filters)


def _git(directory: Path, *words: str) -> str:
    """Return the output of git, which starts no other program and fetches nothing. Raises CommandFailed."""
    options = ("--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
    environment = {"GIT_ALLOW_PROTOCOL": "none"}
    return process.run("ask git", ["git", *options, "-C", str(directory), *words], env=environment, seconds=GIT_SECONDS)
