"""Resources of a deployment that Terraform's state does not record, and whether they may be removed."""

import re
from collections.abc import Sequence

from orchestrator import providers, terraform
from orchestrator.errors import StateError, command
from orchestrator.providers import Resource
from orchestrator.state import Record, StateDir

_REMADE = re.compile(r"-worker-\d+$|-grafana(-data)?$")
REPLACED = "container"  # holds no data, and cannot be distinguished from its successor, which has the same name


def find(state_dir: StateDir, record: Record) -> list[Resource]:
    """Return all resources of this deployment that Terraform's state does not record, or records as tainted."""
    held = set(terraform.recorded(state_dir, record.config["provider"]).recorded.values())
    return [resource for resource in providers.of(record).list_resources(record) if resource.identity not in held]


def unmanaged(state_dir: StateDir, record: Record) -> list[Resource]:
    """Return the resources left by an interrupted apply, for the next apply to remove.

    Raises:
        StateError: A resource may be the head or needed by the head: then Terraform's state is lost, or older than the
            cluster.
    """
    unrecorded = find(state_dir, record)
    doubtful = _doubtful(state_dir, record, unrecorded) if record.configured else []
    if doubtful:
        raise _refusal(state_dir, record, doubtful)
    return unrecorded


def _doubtful(state_dir: StateDir, record: Record, unrecorded: Sequence[Resource]) -> list[Resource]:
    """Return resources that an interrupted apply does not explain, without workers and Grafana: they are made again."""
    tainted = terraform.recorded(state_dir, record.config["provider"]).identities
    candidates = [
        resource for resource in unrecorded if not _REMADE.search(resource.name) and resource.identity not in tainted
    ]
    has_copy = terraform.saved_state(state_dir)
    if record.is_applied or has_copy is None:
        return candidates
    return [
        resource for resource in candidates if resource.identity in has_copy.identities and resource.kind != REPLACED
    ]


def _refusal(state_dir: StateDir, record: Record, doubtful: Sequence[Resource]) -> StateError:
    path = terraform.state_path(state_dir, record.config["provider"])
    return StateError(
        f"{path} does not record {', '.join(map(str, doubtful))} of cluster {state_dir.name!r}: "
        "the file is lost, damaged or older than the cluster, and a deploy would remove them",
        f"restore {path} from a copy of this directory, or {command('teardown', state_dir.name)} fetches the runs and "
        "removes the cluster",
    )
