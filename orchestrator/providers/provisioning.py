"""Provisioning and teardown for all providers whose nodes Terraform makes."""

from collections.abc import Callable, Iterable, Sequence

from orchestrator import config, progress, providers, terraform
from orchestrator.cluster import Cluster, node_names
from orchestrator.config import Config
from orchestrator.errors import CommandFailed, PreflightError, command
from orchestrator.progress import log_errors
from orchestrator.providers import Resource, unmanaged_resources
from orchestrator.providers.unmanaged_resources import unmanaged
from orchestrator.state import Record, StateDir

__all__ = ["destroy", "provision", "unmanaged"]

OnLine = Callable[[str], None]


def provision(
    state_dir: StateDir, record: Record, unmanaged: Sequence[Resource], on_line: OnLine
) -> tuple[Cluster, dict[str, str]]:
    """Apply. If nodes cannot be made and enough are left, continue without them.

    Args:
        state_dir: State directory of the cluster.
        record: Record of the deployment.
        unmanaged: Resources to remove first: they hold names and addresses that are needed again.
        on_line: Receives lines of progress.

    Returns:
        The cluster, and the missing nodes with reasons.

    Raises:
        CommandFailed: Terraform failed, or too many nodes could not be made.
    """
    provider, name = providers.of(record), record.config["provider"]
    provider.remove(resolved_config(record), unmanaged)
    lost = provider.to_replace(record, terraform.recorded(state_dir, name).recorded)
    try:
        return terraform.apply(state_dir, name, record.variables, lost, on_line), {}
    except terraform.NodesNotCreated as failed:
        reasons = provider.failure_reasons(record)  # before the next apply, which destroys the failed nodes
        missing = {name: reasons.get(name, reason) for name, reason in _tolerable(record, failed).items()}
        return _apply_without(state_dir, record, missing, on_line), missing


def _tolerable(record: Record, failed: terraform.NodesNotCreated) -> dict[str, str]:
    """Return the workers to leave out, with reasons, if ``min_nodes`` allows it, else raise ``failed``.

    If there was no room for the head, a worker is left out in its place.
    """
    if failed.other_problems or record.config["nodes"] - len(failed.reasons) < record.least:
        raise failed
    head = f"{record.config['name']}-head"
    workers = {name: reason for name, reason in failed.reasons.items() if name != head}
    if head in failed.reasons:
        names = node_names(record.config["name"], record.config["nodes"])
        created = next(name for name in reversed(names[1:]) if name not in workers)
        workers[created] = f"given up for the head: {failed.reasons[head]}"
    return workers


def _apply_without(state_dir: StateDir, record: Record, missing: Iterable[str], on_line: OnLine) -> Cluster:
    name, without = record.config["provider"], {**record.variables, "without": sorted(missing)}
    try:
        return terraform.apply(state_dir, name, without, [], on_line)
    except terraform.NodesNotCreated:  # the head may have failed before the worker that gives way to it was removed
        return terraform.apply(state_dir, name, without, [], on_line)


def require_same_location(config: Config, key: str, before: str | None, value: str | None) -> None:
    """Raise PreflightError if the cluster is deployed at another location than the configuration names now.

    Args:
        config: Configuration of the cluster.
        key: Key of the location in the provider's section, such as "zone".
        before: Location of the deployment, if there is one.
        value: Location that the configuration names.

    Raises:
        PreflightError: The locations differ.
    """
    if before and before != value:
        raise PreflightError(
            f"{config.provider}.{key}: {value} asked for, the cluster is deployed in {before}",
            f"{command('teardown', config.name)} first, or choose another name with --cluster",
        )


def require_free_name(config: Config, where: str, resources: Sequence[str]) -> None:
    """Raise PreflightError if resources of another state directory carry the cluster's name.

    Args:
        config: Configuration of the cluster.
        where: Name of the searched project or engine, for the message.
        resources: Resources of another state directory with the cluster's name.

    Raises:
        PreflightError: ``resources`` is not empty.
    """
    if resources:
        raise PreflightError(
            f"{where} has a cluster {config.name!r} of another state directory: {', '.join(resources)}",
            "choose another name with --cluster; "
            f"if it is yours, {command('teardown --orphans', config.name)} removes it",
        )


def image_gone(config: Config, image: object) -> PreflightError:
    """Return the error for nodes to be made while the image of the existing nodes no longer exists."""
    return PreflightError(
        f"{config.provider}.image: the {image!r} that the nodes were created from is gone: "
        "new nodes would need another image, and all nodes would be replaced",
        f"{command('teardown', config.name)} first, or keep the number of nodes",
    )


def destroy(state_dir: StateDir, record: Record, on_line: OnLine) -> None:
    """Destroy the resources in Terraform's state. If that fails, remove those that carry the cluster's labels.

    Args:
        state_dir: State directory of the cluster.
        record: Record of the deployment.
        on_line: Receives lines of progress.
    """
    provider, settings = providers.of(record), resolved_config(record)
    with log_errors("removing resources that Terraform does not record"):  # first: a stray node would hold the network
        provider.remove(settings, unmanaged_resources.find(state_dir, record))
    try:
        terraform.destroy(state_dir, record.config["provider"], on_line)
    except (CommandFailed, PreflightError) as error:
        progress.note(f"{error.message}\nremoving by label instead")
    with log_errors("removing by label"):  # the receipt lists what remains
        provider.remove(settings, provider.list_resources(record))


def resolved_config(record: Record) -> Config:
    """Return the configuration of a deployment, unset keys filled from its variables: defaults may have changed."""
    settings = config.usable(record.config)
    section, resolved = getattr(settings, settings.provider), record.variables.get(settings.provider, {})
    silent = [key for key, value in section if value is None and isinstance(resolved.get(key), str)]
    filled = section.model_copy(update={key: resolved[key] for key in silent})
    return settings.model_copy(update={settings.provider: filled})
