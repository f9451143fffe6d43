"""state.json, the record of a cluster: read, validate, write and remove it."""

import shutil
import uuid
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, model_validator

from orchestrator import __version__
from orchestrator.cluster import Cluster
from orchestrator.config import PROVIDERS
from orchestrator.errors import StateError, command
from orchestrator.gpu import Pairing
from orchestrator.schema.bounded import shown
from orchestrator.state.directory import Home, names
from orchestrator.state.private_files import load, replace

VERSION = 1


class _Version(BaseModel):
    """The version in state.json, which determines its other keys."""

    version: int


class Record(BaseModel):
    """state.json: the cluster and its origin. It is written before any resource is created.

    ``missing`` has the reason for each requested node that is not in the cluster. ``applied`` are the variables that
    ``cluster`` was created with: a deploy that is killed or fails leaves others in ``variables``. ``fingerprint`` is
    that of Ansible's input when it last succeeded (:mod:`orchestrator.lifecycle.unchanged`).
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

    @model_validator(mode="before")
    @classmethod
    def _of_an_older_version(cls, values: Any) -> Any:
        return {"applied": values.get("variables", {}), **values} if isinstance(values, dict) else values

    @property
    def settled(self) -> bool:
        """Tell whether the nodes were created with ``variables``, and no later deploy has tried others."""
        return self.variables == self.applied

    @property
    def configured(self) -> bool:
        """Tell whether the head was ever reached, so that it may hold runs and data."""
        return self.cluster is not None and self.cluster.nodes[self.cluster.head].id in self.host_keys

    @property
    def least(self) -> int:
        """Return the smallest number of nodes with which a deploy succeeds."""
        return int(self.config.get("min_nodes") or self.config["nodes"])


def read(place: Home) -> Record | None:
    """Read the record of a cluster; None if nothing is deployed."""
    remedy = repair(place)
    try:
        version = load(place.record, _Version, remedy).version
        if version > VERSION:
            raise StateError(
                f"{place.record} was written by a newer orchestrator (format {version}, this one knows {VERSION})",
                "upgrade orchestrator",
            )
        record = load(place.record, Record, remedy)
    except FileNotFoundError:
        return None
    for problem in _unusable(record):
        raise StateError(f"{place.record} cannot be used: {problem}", remedy)
    return record.model_copy(update={"config": {"name": place.name, **record.config}})


def repair(place: Home) -> str:
    """Return the remedy for a damaged state.json."""
    removes = command("teardown --orphans", place.name)
    return f"restore it from a copy; or move it away, and {removes} removes what the cluster has on its provider"


def _unusable(record: Record) -> Iterator[str]:
    """Yield the problems in the parts of a record that have no model of their own."""
    if record.config.get("provider") not in PROVIDERS:
        yield f"config.provider: {shown(record.config.get('provider'))}: expected one of {', '.join(PROVIDERS)}"
    if not isinstance(record.config.get("name", ""), str):
        yield f"config.name: {shown(record.config['name'])}: expected text"
    for part in ("config", "variables", "applied"):
        for key in (*PROVIDERS, "monitoring"):
            value = getattr(record, part).get(key)
            if value is not None and not isinstance(value, dict):
                yield f"{part}.{key}: {shown(value)}: expected keys and values"


def deployed(place: Home) -> tuple[Record, Cluster]:
    """Return the record and the cluster. Raises StateError if it is not deployed, or only partly."""
    record = read(place)
    if record is None:
        others = names()
        makes = f"{command('deploy', place.name)} makes one"
        known = f"deployed: {', '.join(others)}; choose with --cluster" if others else makes
        raise StateError(f"cluster {place.name!r} is not deployed", known)
    if record.cluster is None:
        raise StateError(
            f"cluster {place.name!r} is only half deployed", f"{command('deploy', place.name)} finishes it"
        )
    return record, record.cluster


def new_record(config: dict[str, Any]) -> Record:
    """Create a record with a new id."""
    return Record(id=uuid.uuid4().hex[:8], config=config)


def write(place: Home, record: Record) -> None:
    """Write the record of a cluster."""
    replace(place.record, record.model_dump_json(indent=2) + "\n")


def forget(place: Home) -> None:
    """Remove the files of a deployed cluster, but keep runs, their results and the logs."""
    for directory in (place.terraform, place.ansible, place.key.parent):
        shutil.rmtree(directory, ignore_errors=True)
    for file in (place.notebook, place.monitoring, place.terraform_copy):
        file.unlink(missing_ok=True)
    place.record.unlink(missing_ok=True)
