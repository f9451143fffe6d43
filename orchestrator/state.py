"""The state directory: one per cluster, with a lock, atomic writes and the logs of every tool."""

import contextlib
import os
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, model_validator

from orchestrator import __version__
from orchestrator.cluster import Cluster
from orchestrator.config import PROVIDERS
from orchestrator.errors import ConfigError, StateError, command
from orchestrator.gpu import Pairing
from orchestrator.schema import bounded
from orchestrator.schema.bounded import Inaccessible, Unreadable, shown
from orchestrator.schema.file import replaced

VERSION = 1
DIRECTORY_HINT = "set {} to a directory of yours on a disk with room"

Model = TypeVar("Model", bound=BaseModel)


class _Version(BaseModel):
    """The key that tells which other keys state.json has."""

    version: int


class Record(BaseModel):
    """state.json: what a cluster is and where it came from. Written before anything is made.

    ``missing`` are nodes that were asked for and are not in the cluster, each with why; ``applied`` are the variables
    that ``cluster`` was made by: a deploy that is killed, or fails, leaves others in ``variables``.
    ``fingerprint`` is that of what Ansible was told when it last succeeded (:mod:`orchestrator.settled`).
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
        """Whether the nodes were made by ``variables``, and no later deploy has tried others."""
        return self.variables == self.applied

    @property
    def configured(self) -> bool:
        """Whether the head was ever reached, so that it may hold runs and data."""
        return self.cluster is not None and self.cluster.nodes[self.cluster.head].id in self.host_keys

    @property
    def least(self) -> int:
        """How many nodes a deploy is content with."""
        return int(self.config.get("min_nodes") or self.config["nodes"])


@dataclass(frozen=True)
class Home:
    """The directory of one cluster."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def record(self) -> Path:
        return self.path / "state.json"

    @property
    def terraform(self) -> Path:
        return self.path / "terraform"

    @property
    def terraform_copy(self) -> Path:
        """Our copy of Terraform's state, as the last apply left it."""
        return self.path / "terraform.tfstate.copy"

    @property
    def ansible(self) -> Path:
        return self.path / "ansible"

    @property
    def key(self) -> Path:
        return self.path / "ssh" / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        return self.path / "ssh" / "known_hosts"

    @property
    def notebook(self) -> Path:
        """The password of JupyterLab."""
        return self.path / "notebook.json"

    @property
    def monitoring(self) -> Path:
        """The password of Grafana."""
        return self.path / "monitoring.json"

    @property
    def runs(self) -> Path:
        return self.path / "runs"

    def log(self, tool: str) -> Path:
        """The log file of ``tool``; its directory is made."""
        directory = self.path / "logs"
        with usable(directory):
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        return directory / f"{tool}.log"


def root() -> Path:
    """Where all clusters' directories are (XDG Base Directory Specification)."""
    return _base("XDG_STATE_HOME", ".local/state") / "orchestrator"


def cache() -> Path:
    """Where downloads are kept."""
    return _base("XDG_CACHE_HOME", ".cache") / "orchestrator"


def _base(variable: str, usual: str) -> Path:
    """The directory that ``variable`` names; a relative one is ignored, as the specification has it."""
    given = Path(os.environ.get(variable, ""))
    try:
        found = given if given.is_absolute() else Path.home() / usual
        str(found).encode()
    except RuntimeError:
        problem = "no home directory: HOME is not set, and this user has no entry in /etc/passwd"
        raise ConfigError([problem], f"set HOME, or {variable} to a directory of yours") from None
    except UnicodeEncodeError:
        raise ConfigError([f"{os.fsencode(found)!r}: not UTF-8"], f"set {variable} to a directory that is") from None
    return found


def home(name: str) -> Home:
    return Home(root() / name)


def names() -> list[str]:
    """Clusters that are deployed, at least in part."""
    return sorted(path.parent.name for path in root().glob("*/state.json"))


def read(place: Home) -> Record | None:
    """The record of a cluster, or None where nothing is deployed."""
    removes = command("teardown --orphans", place.name)
    remedy = f"restore it from a copy; or move it away, and {removes} removes what the cluster has on its provider"
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


def _unusable(record: Record) -> Iterator[str]:
    """What is wrong with the parts of a record that have no model of their own."""
    if record.config.get("provider") not in PROVIDERS:
        yield f"config.provider: {shown(record.config.get('provider'))}: expected one of {', '.join(PROVIDERS)}"
    for part in ("config", "variables", "applied"):
        for key in (*PROVIDERS, "monitoring"):
            value = getattr(record, part).get(key)
            if value is not None and not isinstance(value, dict):
                yield f"{part}.{key}: {shown(value)}: expected keys and values"


def load(path: Path, model: type[Model], remedy: str) -> Model:
    """The ``model`` in a JSON file of the state directory.

    Raises FileNotFoundError, ConfigError if it may not be read, and StateError with the ``remedy`` if it is damaged.
    """
    try:
        return bounded.read_model(path, model)
    except Unreadable as error:
        if isinstance(error, Inaccessible):
            raise ConfigError([str(error)], DIRECTORY_HINT.format("XDG_STATE_HOME")) from error
        raise StateError(f"{error.name} cannot be read: {error.reason}", remedy) from error


def deployed(place: Home) -> tuple[Record, Cluster]:
    """The record and the cluster. Raises StateError where it is not deployed, or only half."""
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
    return Record(id=uuid.uuid4().hex[:8], config=config)


def write(place: Home, record: Record) -> None:
    replace(place.record, record.model_dump_json(indent=2) + "\n")


def replace(path: Path, text: str) -> None:
    """Write ``path`` atomically, readable by its owner alone."""
    with usable(path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with replaced(path, 0o600) as file:
            file.write(text.encode())


@contextlib.contextmanager
def usable(path: Path, variable: str = "XDG_STATE_HOME") -> Iterator[None]:
    """What the file system refuses about ``path``, which ``variable`` moves, is for the user to put right."""
    try:
        yield
    except OSError as error:
        hint = DIRECTORY_HINT.format(variable)
        raise ConfigError([f"{error.filename or path}: {error.strerror}"], hint) from error


def forget(place: Home) -> None:
    """Remove what belongs to a deployed cluster; runs, their results and the logs stay."""
    for directory in (place.terraform, place.ansible, place.key.parent):
        shutil.rmtree(directory, ignore_errors=True)
    for file in (place.notebook, place.monitoring, place.terraform_copy):
        file.unlink(missing_ok=True)
    place.record.unlink(missing_ok=True)
