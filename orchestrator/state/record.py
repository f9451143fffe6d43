"""state.json, the record of a cluster: read, validate, write and remove it."""

import shutil
import uuid
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from orchestrator import __version__
from orchestrator.cluster import Cluster
from orchestrator.config import PROVIDERS
from orchestrator.errors import StateError, command
from orchestrator.gpu_compatibility import Pairing
from orchestrator.schema.bounded_files import shown
from orchestrator.state.directory import StateDir, cluster_names
from orchestrator.state.private_files import load, replace

VERSION = 1


class _Version(BaseModel):
    """The version in state.json, which determines its other keys."""

    version: int


class Record(BaseModel):
    """state.json: the cluster and its origin. It is written before any resource is created.

    ``missing`` has the reason for each requested node that is not in the cluster. ``applied`` are the variables that
    ``cluster`` was created with: a deploy that is killed or fails leaves others in ``variables``. ``fingerprint`` is
    that of Ansible's input when it last succeeded (:mod:`orchestrator.lifecycle.skip_ansible_if_unchanged`).
    """

    version: int = VERSION
    written_by: str = __version__
    id: str
    config: dict[str, Any]
    variables: dict[str, Any] = {}
    applied: dict[str, Any] = {}
    gpu: Pairing = Pairing()
    cluster: Cluster | None = None
    missing: dict[str, str] = {}
    host_keys: dict[str, str] = {}
    fingerprint: str = ""

    @property
    def is_applied(self) -> bool:
        """Tell whether the nodes were created with ``variables``, and no later deploy has tried others."""
        return self.variables == self.applied

    @property
    def configured(self) -> bool:
        """Tell whether a head of this cluster was ever reached, so that the cluster may hold runs and data.

        A deploy that ends before it reaches a new head leaves only the host keys of the nodes before: their /shared may
        still exist.
        """
        return self.cluster is not None and bool(self.host_keys)

    @property
    def least(self) -> int:
        """Return the smallest number of nodes with which a deploy succeeds."""
        return int(self.config.get("min_nodes") or self.config["nodes"])


def read(state_dir: StateDir) -> Record | None:
    """Read the record of a cluster; None if nothing is deployed."""
    remedy = repair(state_dir)
    try:
        version = load(state_dir.record, _Version, remedy).version
        if version > VERSION:
            raise StateError(
                f"{state_dir.record} was written by a newer orchestrator (format {version}, this one knows {VERSION})",
                "upgrade orchestrator",
            )
        record = load(state_dir.record, Record, remedy)
    except FileNotFoundError:
        return None
    for problem in _unusable(record):
        raise StateError(f"{state_dir.record} cannot be used: {problem}", remedy)
    return record.model_copy(update={"config": {"name": state_dir.name, **record.config}})


def repair(state_dir: StateDir) -> str:
    """Return the remedy for a damaged state.json."""
    removes = command("teardown --orphans", state_dir.name)
    return f"restore it from a copy; or move it away, and {removes} removes the resources of the cluster"


def _unusable(record: Record) -> Iterator[str]:
    """Yield the problems in the parts of a record that have no model of their own."""
    if record.config.get("provider") not in PROVIDERS:
        yield f"config.provider: {shown(record.config.get('provider'))}: expected one of {', '.join(PROVIDERS)}"
    if not isinstance(record.config.get("name", ""), str):
        yield f"config.name: {shown(record.config['name'])}: expected text"
    if record.cluster is not None and "applied" not in record.model_fields_set:
        yield "applied: missing: expected the variables that the cluster was created with"
    for part in ("config", "variables", "applied"):
        for key in (*PROVIDERS, "monitoring"):
            value = getattr(record, part).get(key)
            if value is not None and not isinstance(value, dict):
                yield f"{part}.{key}: {shown(value)}: expected keys and values"


def deployed(state_dir: StateDir) -> tuple[Record, Cluster]:
    """Return the record and the cluster. Raises StateError if it is not deployed, or only partly."""
    record = read(state_dir)
    if record is None:
        makes = f"{command('deploy', state_dir.name)} makes one"
        raise StateError(f"cluster {state_dir.name!r} is not deployed", deployed_clusters() or makes)
    if record.cluster is None:
        raise StateError(
            f"cluster {state_dir.name!r} is only half deployed", f"{command('deploy', state_dir.name)} finishes it"
        )
    return record, record.cluster


def deployed_clusters() -> str:
    """Return a hint that names the deployed clusters, "" if there are none."""
    names = cluster_names()
    return f"deployed: {', '.join(names)}; choose with --cluster" if names else ""


def new_record(config: dict[str, Any]) -> Record:
    """Create a record with a new id."""
    return Record(id=uuid.uuid4().hex[:8], config=config)


def write(state_dir: StateDir, record: Record) -> None:
    """Write the record of a cluster."""
    replace(state_dir.record, record.model_dump_json(indent=2) + "\n")


def forget(state_dir: StateDir) -> None:
    """Remove the files of a deployed cluster, but keep runs, their results and the logs."""
    for directory in (state_dir.terraform, state_dir.ansible, state_dir.key.parent):
        shutil.rmtree(directory, ignore_errors=True)
    for file in (state_dir.notebook, state_dir.monitoring, state_dir.terraform_copy):
        file.unlink(missing_ok=True)
    state_dir.record.unlink(missing_ok=True)
