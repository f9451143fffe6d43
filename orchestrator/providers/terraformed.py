"""What providers share whose nodes Terraform makes."""

from collections.abc import Callable, Iterable, Sequence

from orchestrator import config, progress, providers, terraform
from orchestrator.cluster import Cluster
from orchestrator.config import Config
from orchestrator.errors import CommandFailed, PreflightError, command
from orchestrator.notes import noting
from orchestrator.providers import Resource, unrecorded
from orchestrator.providers.unrecorded import strays
from orchestrator.state import Home, Record

__all__ = ["destroy", "provision", "strays"]

OnLine = Callable[[str], None]


def provision(
    place: Home, record: Record, strays: Sequence[Resource], on_line: OnLine
) -> tuple[Cluster, dict[str, str]]:
    """Apply. Where nodes cannot be made and enough are left, go on without them.

    ``strays`` are removed first: they hold names and addresses that are needed again.
    """
    provider, name = providers.of(record), record.config["provider"]
    provider.remove(told(record), strays)
    lost = provider.lost(record, terraform.recorded(place, name).recorded)
    try:
        return terraform.apply(place, name, record.variables, lost, on_line), {}
    except terraform.NodesNotMade as failed:
        said = provider.faults(record)  # now: what failed is destroyed by the next apply
        missing = {name: said.get(name, reason) for name, reason in _tolerable(record, failed).items()}
        return _apply_without(place, record, missing, on_line), missing


def _tolerable(record: Record, failed: terraform.NodesNotMade) -> dict[str, str]:
    """Which workers to do without, and why, where ``min_nodes`` allows it. Raises ``failed`` where not.

    Where there was no room for the head, a worker gives way.
    """
    if failed.others or record.config["nodes"] - len(failed.reasons) < record.least:
        raise failed
    head = f"{record.config['name']}-head"
    workers = {name: reason for name, reason in failed.reasons.items() if name != head}
    if head in failed.reasons:
        names = [f"{record.config['name']}-worker-{number}" for number in range(record.config["nodes"] - 1)]
        made = next(name for name in reversed(names) if name not in workers)
        workers[made] = f"gave way to the head: {failed.reasons[head]}"
    return workers


def _apply_without(place: Home, record: Record, missing: Iterable[str], on_line: OnLine) -> Cluster:
    name, without = record.config["provider"], {**record.variables, "without": sorted(missing)}
    try:
        return terraform.apply(place, name, without, [], on_line)
    except terraform.NodesNotMade:  # the head, perhaps, before the worker that gives way to it was gone
        return terraform.apply(place, name, without, [], on_line)


def require_same_place(config: Config, key: str, before: str | None, here: str | None) -> None:
    """Raises PreflightError where a cluster stands elsewhere, namely ``before``, than its ``key`` says now."""
    if before and before != here:
        raise PreflightError(
            f"{config.provider}.{key}: {here} asked for, the cluster is deployed in {before}",
            f"{command('teardown', config.name)} first, or choose another name with --cluster",
        )


def require_free_name(config: Config, where: str, others: Sequence[str]) -> None:
    """Raises PreflightError where ``others`` carry the cluster's name and are of another state directory."""
    if others:
        raise PreflightError(
            f"{where} has a cluster {config.name!r} of another state directory: {', '.join(others)}",
            "choose another name with --cluster; "
            f"if it is yours, {command('teardown --orphans', config.name)} removes it",
        )


def image_gone(config: Config, image: object) -> PreflightError:
    """Nodes are to be made, and the image of those that stand is there no more."""
    return PreflightError(
        f"{config.provider}.image: the {image!r} that the nodes were made of is gone: "
        "new nodes would be of another, and all would be made anew",
        f"{command('teardown', config.name)} first, or stay with the nodes that there are",
    )


def destroy(place: Home, record: Record, on_line: OnLine) -> None:
    """Destroy what Terraform's state holds. Where that fails, what carries our labels is removed all the same."""
    provider, settings = providers.of(record), told(record)
    with noting("removing what Terraform does not know"):  # first: a stray node would hold the network
        provider.remove(settings, unrecorded.find(place, record))
    try:
        terraform.destroy(place, record.config["provider"], on_line)
    except (CommandFailed, PreflightError) as error:
        progress.note(f"{error.message}\nremoving by label instead")
    with noting("removing by label"):  # of what stays, the receipt tells
        provider.remove(settings, provider.survey(record))


def told(record: Record) -> Config:
    """The configuration of a deployment, with what was found out where it is silent: another cloud may be usual now."""
    settings = config.usable(record.config)
    section, resolved = getattr(settings, settings.provider), record.variables.get(settings.provider, {})
    silent = [key for key, value in section if value is None and isinstance(resolved.get(key), str)]
    filled = section.model_copy(update={key: resolved[key] for key in silent})
    return settings.model_copy(update={settings.provider: filled})
