"""What providers share whose nodes Terraform makes."""

from collections.abc import Callable

from orchestrator import config, progress, providers, terraform
from orchestrator.cluster import Cluster
from orchestrator.config import Config
from orchestrator.errors import CommandFailed, PreflightError
from orchestrator.notes import noting
from orchestrator.providers import Resource
from orchestrator.state import Home, Record

OnLine = Callable[[str], None]


def provision(place: Home, record: Record, on_line: OnLine) -> tuple[Cluster, dict[str, str]]:
    """Apply. Where nodes cannot be made and enough are left, go on without them.

    What is there without Terraform's knowledge is removed first: it holds names and addresses that are needed again.
    """
    provider, name = providers.of(record), record.config["provider"]
    provider.remove(told(record), strays(place, record))
    lost = provider.lost(record, terraform.recorded(place, name))
    try:
        return terraform.apply(place, name, record.variables, lost, on_line), {}
    except terraform.NodesNotMade as failed:
        said = provider.faults(record)  # now: what failed is destroyed by the next apply
        missing = {name: said.get(name, reason) for name, reason in _tolerable(record, failed).items()}
        without = {**record.variables, "without": sorted(missing)}
        return terraform.apply(place, name, without, [], on_line), missing


def _tolerable(record: Record, failed: terraform.NodesNotMade) -> dict[str, str]:
    """Which workers were not made, and why, where ``min_nodes`` allows it. Raises ``failed`` where not."""
    if failed.others or f"{record.config['name']}-head" in failed.reasons:
        raise failed
    if record.config["nodes"] - len(failed.reasons) < record.least:
        raise failed
    return failed.reasons


def destroy(place: Home, record: Record, on_line: OnLine) -> None:
    """Destroy what Terraform's state holds. Where that fails, what carries our labels is removed all the same."""
    provider, settings = providers.of(record), told(record)
    with noting("removing what Terraform does not know"):  # first: a stray node would hold the network
        provider.remove(settings, strays(place, record))
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


def strays(place: Home, record: Record) -> list[Resource]:
    """What is there without Terraform's knowledge: an interrupted apply leaves such things."""
    held = set(terraform.recorded(place, record.config["provider"]).values())
    return [resource for resource in providers.of(record).survey(record) if resource.identity not in held]
