"""Resources of a deployment that Terraform's state does not record, and whether they may be removed."""

import re
from collections.abc import Sequence

from orchestrator import providers, terraform
from orchestrator.errors import StateError, command
from orchestrator.providers import Resource
from orchestrator.state import Home, Record

_REMADE = re.compile(r"-worker-\d+$|-grafana(-data)?$")
REPLACED = "container"  # holds no data, and cannot be told from its successor, which has the same name


def find(place: Home, record: Record) -> list[Resource]:
    """Return all resources of this deployment that Terraform's state does not record, or records as tainted."""
    held = set(terraform.recorded(place, record.config["provider"]).recorded.values())
    return [resource for resource in providers.of(record).survey(record) if resource.identity not in held]


def strays(place: Home, record: Record) -> list[Resource]:
    """Return the resources left by an interrupted apply, for the next apply to remove.

    Raises:
        StateError: A resource may be the head or needed by the head: then Terraform's state is lost, or older than the
            cluster.
    """
    found = find(place, record)
    doubtful = _doubtful(place, record, found) if record.configured else []
    if doubtful:
        raise _refusal(place, record, doubtful)
    return found


def _doubtful(place: Home, record: Record, found: Sequence[Resource]) -> list[Resource]:
    """Return resources that an interrupted apply does not explain, without workers and Grafana: they are made again."""
    tainted = terraform.recorded(place, record.config["provider"]).identities
    others = [one for one in found if not _REMADE.search(one.name) and one.identity not in tainted]
    kept = terraform.kept(place)
    if record.settled or kept is None:
        return others
    return [one for one in others if one.identity in kept.identities and one.kind != REPLACED]


def _refusal(place: Home, record: Record, doubtful: Sequence[Resource]) -> StateError:
    path = terraform.state_path(place, record.config["provider"])
    return StateError(
        f"{path} does not record {', '.join(map(str, doubtful))} of cluster {place.name!r}: "
        "the file is lost, damaged or older than the cluster, and a deploy would remove them",
        f"restore {path} from a copy of this directory, or {command('teardown', place.name)} fetches the runs and "
        "removes the cluster",
    )
