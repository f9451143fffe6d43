"""Deploy: ordered steps, each idempotent, so a deploy is resumed by running it again."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from orchestrator import __version__, node_health, progress, providers, state, terraform
from orchestrator.cluster import Cluster
from orchestrator.config import Config, storable, stored
from orchestrator.errors import NodesFailed, OrchestratorError, command
from orchestrator.gpu_compatibility import Pairing
from orchestrator.lifecycle import fetch_before_removal, plan, prices, prometheus_targets
from orchestrator.lifecycle.deploy_steps import NodeSteps
from orchestrator.monitoring import grafana_password
from orchestrator.providers import Provider, Resource, trainer_image
from orchestrator.runs import control
from orchestrator.schema import bounded_files
from orchestrator.schema.bounded_files import Unreadable
from orchestrator.services import jupyter
from orchestrator.state import Record, StateDir, cluster_lock


@dataclass(frozen=True)
class Deployment:
    """Result of a deploy.

    ``missing`` has the nodes that could not be deployed, with reasons; ``changed`` counts Ansible's changes by node;
    ``seconds`` has the duration of each step.
    """

    cluster: Cluster
    missing: dict[str, str]
    changed: dict[str, int]
    seconds: dict[str, float]


def deploy(config: Config) -> Deployment:
    """Deploy the cluster that ``config`` asks for, whatever part of it exists already."""
    with progress.step("Checking the settings"):
        pairing = plan.preflight(config)
    state_dir, provider = state.for_cluster(config.name), providers.get(config.provider)
    _print_costs(config, provider)
    with cluster_lock.held(state_dir), grafana_password.provision_password(state_dir, config):
        record = _draft(state_dir, config, provider, pairing)
        before = state.read(state_dir) or record
        unmanaged = provider.unmanaged(state_dir, before)
        _spare_runs(state_dir, before, record)
        fetch_before_removal.before_deploy(state_dir, before, record)
        state.write(state_dir, record)  # before anything is made
        prometheus_targets.remove_leaving_nodes(state_dir, before, record)
        with jupyter.provision_password(state_dir, config), _keeping(provider, record):
            steps = NodeSteps(state_dir, record, record.least)
            cluster = steps.run_on_available_nodes(
                _provision(state_dir, provider, record, unmanaged, steps.missing), steps.wait_for_ssh
            )
            cluster = steps.run_on_available_nodes(cluster, steps.configure)
            cluster = steps.run_on_available_nodes(cluster, steps.check_health)
            steps.save(cluster)
            control.remove_environments(state_dir, cluster)
    return Deployment(cluster, steps.missing, steps.changed, progress.seconds())


def _print_costs(config: Config, provider: Provider) -> None:
    items = prices.bill(provider.priced(config), config.prices)
    if items:
        listed = ", ".join(f"{item.count} x {item.name}" for item in items)
        progress.note(f"cluster of {listed}: {prices.total(items, config.currency)}")


def _draft(state_dir: StateDir, config: Config, provider: Provider, pairing: Pairing) -> Record:
    """Return the record for this deploy, with the nodes' image built; the record is not saved yet."""
    values = storable(config)
    before = state.read(state_dir) or state.new_record(values)
    changes = {"config": values, "written_by": __version__, "gpu": pairing}
    record = before.model_copy(update=changes)
    provider.prepare(record, state_dir)
    return record.model_copy(update={"variables": plan.variables(state_dir, config, provider, before)})


def _spare_runs(state_dir: StateDir, before: Record, record: Record) -> None:
    """Refuse a deploy that would change nodes under a run. No run is active if the head does not answer.

    Lost nodes are replaced all the same: a run on them has failed.

    Raises:
        StateError: A run is under way.
    """
    cluster = before.cluster
    if cluster is None or not before.configured:
        return
    unchanged = _unchanged(state_dir, before, record.variables) and _keeps_driver(cluster, before, record)
    if unchanged and _keeps_trainer(state_dir, cluster, record):
        return
    with suppress(NodesFailed), control.head_session(state_dir, cluster) as head:
        node_health.require_free(control.active(head), cluster)


def _unchanged(state_dir: StateDir, record: Record, variables: Mapping[str, Any]) -> bool:
    """Return whether the nodes were made by these ``variables`` and this version's Terraform root.

    False if a later deploy began.
    """
    provider = record.config["provider"]
    same_root = not terraform.has_root(provider) or terraform.is_current(state_dir, provider)
    return same_root and record.is_applied and _of_nodes(variables) == _of_nodes(record.variables)


def _keeps_driver(cluster: Cluster, before: Record, record: Record) -> bool:
    """Return whether the nodes keep NVIDIA's driver, or have no GPUs: another driver may restart them."""
    if not any(node.gpus for node in cluster.nodes.values()):
        return True
    return before.gpu == record.gpu and stored(before.config).gpu == stored(record.config).gpu


def _keeps_trainer(state_dir: StateDir, cluster: Cluster, record: Record) -> bool:
    """Return whether the nodes have the trainer's image of ``record``, or none: another would restart the trainer.

    The image is compared with that of the last deploy, since another version makes another from the same configuration.
    """
    return (
        cluster.trainer != "container" or _configured_image(state_dir) == trainer_image.trainer(record)["trainer_image"]
    )


def _configured_image(state_dir: StateDir) -> str | None:
    """Return the trainer's image that Ansible last brought to the nodes; None if that is unknown."""
    with suppress(FileNotFoundError, Unreadable, LookupError, TypeError):
        return str(bounded_files.read_json(state_dir.ansible / "inventory.json")["all"]["vars"]["trainer_image"])
    return None


def _of_nodes(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Remove Grafana's container from the variables, since it may change during a run."""
    return {
        key: {name: part for name, part in value.items() if name != "grafana"} if isinstance(value, dict) else value
        for key, value in variables.items()
    }


def _provision(
    state_dir: StateDir, provider: Provider, record: Record, unmanaged: Sequence[Resource], missing: dict[str, str]
) -> Cluster:
    """Provision the cluster; nodes that failed, although enough are left, are added to ``missing``."""
    count = record.config["nodes"]
    with progress.step(f"Provisioning {count} {'node' if count == 1 else 'nodes'}") as step:
        provisioned, not_created = provider.provision(state_dir, record, unmanaged, step.detail)
    missing |= not_created
    return provisioned


@contextmanager
def _keeping(provider: Provider, record: Record) -> Iterator[None]:
    """Keep all resources on an error, and add to its hint which exist, how to continue and how to remove them."""
    try:
        yield
    except OrchestratorError as error:
        error.hint = "\n".join(filter(None, [error.hint, _describe_resources(provider, record)]))
        raise
    except KeyboardInterrupt:
        progress.note(_describe_resources(provider, record))
        raise


def _describe_resources(provider: Provider, record: Record) -> str:
    resources: list[Resource] = []
    with suppress(OrchestratorError):
        resources = provider.list_resources(record)
    if not resources:
        return ""
    names = ", ".join(map(str, resources))
    continues, removes = (command(word, record.config["name"]) for word in ("deploy", "teardown"))
    return f"kept: {names}\n{continues} continues from here, {removes} removes them"
