"""Removal of clusters' resources from a cloud, in order of dependency, waiting until they are gone."""

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from openstack.connection import Connection
from openstack.exceptions import BadRequestException, ConflictException, NotFoundException, SDKException

from orchestrator.errors import CommandFailed, OrchestratorError, PreflightError
from orchestrator.providers.openstack.api.connection import Cloud, asking

GONE_SECONDS, FREE_SECONDS, LOOK_SECONDS = 300.0, 60.0, 1.0
_Call = Callable[[Connection, str], Any]


def _detach(connection: Connection, key: str) -> None:
    """Detach the router from the subnet, which removes port ``key``."""
    connection.network.remove_interface_from_router(connection.network.get_port(key).device_id, None, key)


# In the order of removal. Each accepts that the resource is already gone.
_DELETE: Mapping[str, _Call] = {
    "server": lambda connection, key: connection.compute.delete_server(key),
    "volume": lambda connection, key: connection.block_storage.delete_volume(key),
    "floating-ip": lambda connection, key: connection.network.delete_ip(key),
    "router-interface": _detach,
    "router": lambda connection, key: connection.network.delete_router(key),
    "port": lambda connection, key: connection.network.delete_port(key),
    "subnet": lambda connection, key: connection.network.delete_subnet(key),
    "network": lambda connection, key: connection.network.delete_network(key),
    "security-group": lambda connection, key: connection.network.delete_security_group(key),
    "keypair": lambda connection, key: connection.compute.delete_keypair(key),
    "server-group": lambda connection, key: connection.compute.delete_server_group(key),
}
# Resources that still exist for a while after the request to remove them.
_SLOW: Mapping[str, _Call] = {
    "server": lambda connection, key: connection.compute.get_server(key),
    "volume": lambda connection, key: connection.block_storage.get_volume(key),
}


def remove(cloud: Cloud, things: Iterable[tuple[str, str]]) -> None:
    """Remove resources, given as (kind, key), and wait until they are gone. Those already gone are no error.

    Raises:
        OrchestratorError: Resources remain, each with the reason; all others were removed.
    """
    resources, failed = list(things), []
    for kind in _DELETE:
        keys = [key for of_kind, key in resources if of_kind == kind]
        failed += _each(_delete, FREE_SECONDS, cloud, kind, keys)
        failed += _each(_wait_gone, GONE_SECONDS, cloud, kind, keys if kind in _SLOW else [])
    if failed:
        raise OrchestratorError("\n".join(error.message for error in failed), "run the same command again to continue")


def _each(
    step: Callable[[Cloud, str, str, float], None], seconds: float, cloud: Cloud, kind: str, keys: list[str]
) -> list[OrchestratorError]:
    """Run ``step`` for each of ``keys``, all of them within ``seconds``, and return the errors."""
    failed: list[OrchestratorError] = []
    deadline = time.monotonic() + seconds
    for key in keys:
        try:
            step(cloud, kind, key, deadline)
        except (CommandFailed, PreflightError) as error:
            failed.append(error)
    return failed


def _delete(cloud: Cloud, kind: str, key: str, deadline: float) -> None:
    """Delete a resource, retrying while another one that is being removed holds it (409; Cinder answers 400)."""
    with _removing(kind, key):
        while True:
            try:
                _DELETE[kind](cloud.connection, key)
                return
            except NotFoundException:
                return
            except (ConflictException, BadRequestException):
                if time.monotonic() > deadline:
                    raise
            time.sleep(LOOK_SECONDS)


def _wait_gone(cloud: Cloud, kind: str, key: str, deadline: float) -> None:
    with _removing(kind, key):
        try:
            while _SLOW[kind](cloud.connection, key).status not in ("DELETED", "SOFT_DELETED"):
                if time.monotonic() > deadline:
                    raise SDKException(f"still there after {GONE_SECONDS:.0f} s")
                time.sleep(LOOK_SECONDS)
        except NotFoundException:
            return


def _removing(kind: str, key: str) -> AbstractContextManager[None]:
    """Translate errors, naming the openstack client's command for the removal."""
    noun = kind.replace("-", " ")
    words = ("router", "remove", "port") if kind == "router-interface" else (*noun.split(), "delete")
    return asking(f"remove {noun}", *words, key)
