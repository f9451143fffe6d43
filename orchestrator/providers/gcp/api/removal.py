"""Removal of clusters' resources from a project, in order of dependency, waiting until they are gone."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from orchestrator.errors import CommandFailed, OrchestratorError, PreflightError
from orchestrator.providers.gcp.api.client import Document, Google

# In the order of removal: an instance holds its disk, its address and its policy, and all of them are in a network.
ORDER = (
    "instance",
    "disk",
    "address",
    "placement-policy",
    "firewall",
    "nat",
    "router",
    "subnet",
    "network",
    "service-account",
)


def remove(google: Google, things: Iterable[tuple[str, str]]) -> None:
    """Remove resources, given as (kind, path), and wait until they are gone. Those already gone are no error.

    Raises:
        OrchestratorError: Resources remain, each with the reason; all others were removed.
    """
    resources, failed = list(things), list[str]()
    for kind in ORDER:
        operations = dict[str, Document | None]()
        for path in [path for of_kind, path in resources if of_kind == kind]:
            with _collecting(failed, path):
                operations[path] = _begin(google, kind, path)
        for path, operation in operations.items():
            with _collecting(failed, path):
                google.finish(operation or {"status": "DONE"}, f"remove {kind} {path}")
    if failed:
        raise OrchestratorError("not removed:\n" + "\n".join(failed), "run the same command again to continue")


@contextmanager
def _collecting(failed: list[str], path: str) -> Iterator[None]:
    try:
        yield
    except (CommandFailed, PreflightError) as error:
        reasons = error.tail if isinstance(error, CommandFailed) else []
        failed.append(f"{path}: {'; '.join(reasons) or error.message}")


def _begin(google: Google, kind: str, path: str) -> Document | None:
    """Start the removal of a resource. Return its operation, or None if there is nothing to wait for."""
    if kind == "nat":
        return _without_nat(google, path)
    if kind == "service-account":
        google.call("DELETE", path, "iam")
        return None
    return google.call("DELETE", path)


def _without_nat(google: Google, path: str) -> Document | None:
    """Remove a NAT, which is an entry of its router."""
    router, _, name = path.partition("/nats/")
    current = google.find(router)
    if current is None:
        return None
    rest = [nat for nat in current.get("nats", []) if nat["name"] != name]
    return google.call("PATCH", router, body={"nats": rest})
