"""Plan a deploy: what it would make, and whether it could succeed. Nothing is touched."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from orchestrator import gpu_compatibility, process, progress, providers, state, terraform
from orchestrator.config import Config, expanded, storable
from orchestrator.docker import context
from orchestrator.errors import CommandFailed, PreflightError, StateError, command, gather
from orchestrator.gpu_compatibility import Pairing
from orchestrator.monitoring import alert_receivers
from orchestrator.providers import Provider
from orchestrator.schema import atomic_write
from orchestrator.ssh import key_pair
from orchestrator.state import Record, StateDir
from orchestrator.terraform import Change

NAME = "plan"  # of temporary directories in the state directory, after a period


@dataclass(frozen=True)
class Plan:
    """Changes of resources that a deploy would make, and its number of each priced item."""

    changes: list[Change]
    priced: dict[str, int]


def preflight(config: Config) -> Pairing:
    """Check whether a deploy could succeed.

    Returns:
        Driver, packages and versions for the nodes' GPUs.

    Raises:
        PreflightError: It could not; it has all findings at once.
        StateError: The cluster is deployed with another provider, or its key is lost.
    """
    state_dir = state.for_cluster(config.name)
    record = state.read(state_dir)
    if record and record.config["provider"] != config.provider:
        raise StateError(
            f"cluster {config.name!r} is deployed with provider {record.config['provider']}",
            f"{command('teardown', config.name)} first, or choose another name with --cluster",
        )
    if record:
        _require_key(state_dir, record)
    pairings: list[Pairing] = []
    gather(
        lambda: terraform.check_version() if terraform.has_root(config.provider) else None,
        lambda: providers.get(config.provider).preflight(config, record),
        lambda: pairings.append(_pairing(config, record)),
        lambda: alert_receivers.configuration(config.monitoring.receivers) if config.monitoring.enabled else None,
        lambda: context.require_dockerfile(config.image),
        lambda: process.require("ssh", "install OpenSSH's client: `sudo apt-get install openssh-client`"),
    )
    return pairings[0]


def _require_key(state_dir: StateDir, record: Record) -> None:
    """Check that a deploy does not replace a head, with /shared on its disk, because the cluster's key is lost."""
    on_head = record.cluster is not None and record.cluster.storage == "nfs"
    if on_head and record.configured and terraform.has_root(record.config["provider"]) and not state_dir.key.exists():
        raise StateError(
            f"{state_dir.key} is missing: another key would replace every node, and /shared with the head",
            f"restore it from a copy; without it, {command('teardown', state_dir.name)} and deploy again",
        )


def _pairing(config: Config, record: Record | None) -> Pairing:
    """Choose the driver for the nodes' GPUs.

    Raises:
        PreflightError: No driver fits, or a licence file is missing.
    """
    model, image = providers.get(config.provider).gpu_and_image(config, record)
    pairing = gpu_compatibility.resolve(model, config.gpu, gpu_compatibility.distribution(image), config.framework)
    licence = ("vgpu_installer", "vgpu_token") if pairing.driver == "vgpu" else ()
    gather(*(partial(_require_file, f"gpu.{name}", getattr(config.gpu, name)) for name in licence))
    return pairing


def _require_file(key: str, path: Path) -> None:
    if not expanded(key, path).is_file():
        raise PreflightError(
            f"{key}: {path}: no such file", "download it from NVIDIA's licensing portal, and name its path"
        )


def plan(config: Config) -> Plan:
    """Plan a deploy without touching anything."""
    with progress.step("Checking the settings"):
        preflight(config)
    state_dir, provider = state.for_cluster(config.name), providers.get(config.provider)
    record = state.read(state_dir) or state.new_record(storable(config))
    changes: list[Change] = []
    if terraform.has_root(config.provider):
        with (
            progress.step("Planning"),
            _temporary_directory() as temporary,
            _keeping_the_log(state_dir),
        ):
            draft = StateDir(temporary / config.name)
            values = variables(state_dir if state_dir.key.exists() else draft, config, provider, record)
            changes = terraform.plan(draft, config.provider, values, state_dir)
    return Plan(changes, provider.priced(config))


@contextmanager
def _temporary_directory() -> Iterator[Path]:
    """Create a directory next to those of clusters: Terraform executes providers there, which /tmp may not allow."""
    root = state.root()
    with state.usable(root):
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        for leftover in atomic_write.leftovers(root / NAME):
            shutil.rmtree(leftover, ignore_errors=True)
        directory = TemporaryDirectory(prefix=atomic_write.unfinished_prefix(root / NAME), dir=root)
    with directory as path:
        yield Path(path)


@contextmanager
def _keeping_the_log(state_dir: StateDir) -> Iterator[None]:
    """Copy the log that an error names before the plan's temporary directory is removed."""
    try:
        yield
    except CommandFailed as error:
        if error.log and error.log.exists():
            log = state_dir.log("plan")
            shutil.copyfile(error.log, log)
            error.log, error.hint = log, f"whole log: {log}"
        raise


def variables(state_dir: StateDir, config: Config, provider: Provider, record: Record) -> dict[str, Any]:
    """Return the input variables for Terraform.

    Args:
        state_dir: State directory of the cluster.
        config: The configuration.
        provider: The configuration's provider.
        record: The deployment.

    Returns:
        Values by variable.
    """
    return {
        "name": config.name,
        "id": record.id,
        "nodes": config.nodes,
        "slots": config.slots,
        "allow_from": [str(network) for network in config.allow_from or []]
        or provider.default_allow_from(config, record),
        "without": [],
        config.provider: provider.variables(config, record),
        "ssh_public_key": key_pair.public_half(state_dir.key),
    }
