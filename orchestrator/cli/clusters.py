"""Commands for the cluster itself."""

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from orchestrator import node_health as health_checks
from orchestrator import progress, providers
from orchestrator.cli import (
    chosen_cluster,
    grafana_password_options,
    options,
    output,
    plan_tables,
    result_tables,
    status_table,
)
from orchestrator.cli.options import ConfigFile, Json, Name, key
from orchestrator.config import FILE, Config, output_file, template
from orchestrator.errors import ConfigError, OrchestratorError
from orchestrator.errors import command as spell
from orchestrator.lifecycle import deploy as lifecycle_deploy
from orchestrator.lifecycle import plan as lifecycle_plan
from orchestrator.lifecycle import prices
from orchestrator.lifecycle import teardown as lifecycle_teardown
from orchestrator.lifecycle.receipt import Receipt
from orchestrator.runs import control

ORPHANS = "Remove resources with the cluster's name that your state directory does not record, even another user's."
FORGET = "Forget a cluster that is gone with its project, cloud, Docker Engine or hosts, so that nothing answers."

DISCARD = "Do not copy the metrics of the runs to this machine."
DISCARD_RUNS = "Remove the cluster even if runs cannot be copied to this machine, and lose those runs."


def register(app: typer.Typer) -> None:
    for command in (init, plan, deploy, status, teardown):
        app.command()(command)


def init(
    path: Annotated[Path, typer.Argument(help="Path of the file to write.")] = FILE,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a cluster.yaml with every key, its meaning and its default."""
    output_file.create(template().encode(), path, force, 0o600)  # it can hold passwords
    progress.note(f"wrote {path}")


Nodes = Annotated[int | None, key("nodes")]
# Settings of nodes, which the next deploy would change if cluster.yaml does not set them.
LASTING = ("nodes", "slots", "framework", "jupyter", "monitoring.enabled", "local.cpus", "local.memory")
Provider = Annotated[str | None, key("provider")]
Slots = Annotated[int | None, key("slots")]
Framework = Annotated[str | None, key("framework")]


def plan(
    nodes: Nodes = None,
    provider: Provider = None,
    slots: Slots = None,
    framework: Framework = None,
    config_file: ConfigFile = None,
    name: Name = None,
    json: Json = False,
) -> None:
    """Check what a deploy needs, and show what it would create and what that costs. Changes nothing."""
    flags = {"nodes": nodes, "provider": provider, "slots": slots, "framework": framework}
    config = chosen_cluster.load_config(config_file, name, flags)
    planned = lifecycle_plan.plan(config)
    bill = prices.bill(planned.priced, config.prices)
    if json:
        return output.as_json({"changes": planned.changes, "prices": bill, "currency": config.currency})
    plan_tables.resource_changes(config, planned.changes)
    plan_tables.costs(bill, config.currency)


def deploy(
    nodes: Nodes = None,
    provider: Provider = None,
    slots: Slots = None,
    framework: Framework = None,
    min_nodes: Annotated[int | None, key("min_nodes")] = None,
    allow_from: Annotated[list[str] | None, key("allow_from")] = None,
    jupyter: Annotated[bool | None, key("jupyter", "--jupyter/--no-jupyter")] = None,
    enabled: Annotated[bool | None, key("monitoring.enabled", "--monitoring/--no-monitoring")] = None,
    grafana: Annotated[str | None, key("monitoring.grafana")] = None,
    grafana_password: grafana_password_options.Prompt = False,
    grafana_password_file: grafana_password_options.PasswordFile = None,
    cpus: Annotated[float | None, key("local.cpus")] = None,
    memory: Annotated[float | None, key("local.memory")] = None,
    subnet: Annotated[str | None, key("local.subnet")] = None,
    base_image: Annotated[str | None, key("local.base_image")] = None,
    config_file: ConfigFile = None,
    name: Name = None,
    json: Json = False,
) -> None:
    """Create the cluster, or grow, shrink or repair an existing one."""
    flags = {
        "nodes": nodes, "provider": provider, "slots": slots, "framework": framework, "min_nodes": min_nodes,
        "allow_from": allow_from or None, "jupyter": jupyter, "monitoring.enabled": enabled,
        "monitoring.grafana": grafana,
        "monitoring_password": grafana_password_options.read(grafana_password, grafana_password_file),
        "local.cpus": cpus, "local.memory": memory, "local.subnet": subnet,
        "local.base_image": base_image,
    }  # fmt: skip
    config = chosen_cluster.load_config(config_file, name, flags)
    chosen_cluster.note_defaults(config, config_file, LASTING)
    deployment = lifecycle_deploy.deploy(config)
    if json:
        return output.as_json(deployment)
    changes = ", ".join(f"{node} changed={count}" for node, count in deployment.changed.items())
    cluster = deployment.cluster
    output.line(f"cluster {cluster.name}: {len(cluster.nodes)} nodes, {cluster.slots} slots ({changes})")
    status_table.missing(deployment.missing)
    status_table.note_nodes_without_ranks(cluster)
    output.line(
        f"took {sum(deployment.seconds.values()):.1f} s: "
        + ", ".join(f"{k} {v:.1f}" for k, v in deployment.seconds.items())
    )
    if config.monitoring.enabled:
        progress.note(f"{spell('top', config.name)} and {spell('dashboard', config.name)} show its state")


def status(config_file: ConfigFile = None, name: Name = None, json: Json = False) -> None:
    """Show nodes, roles, addresses, slots, health and runs."""
    state_dir, record, cluster = chosen_cluster.deployed(config_file, name)
    health = health_checks.health(state_dir, cluster, providers.of(record).trainer_digest(record))
    run_states = control.overview(state_dir, cluster)
    if json:
        listing = [result_tables.as_record(run_state) for run_state in run_states]
        report = {"cluster": cluster, "missing": record.missing, "health": health.checks, "runs": listing}
        return output.as_json(report)
    output.line(
        f"cluster {cluster.name} ({record.config['provider']}): {len(cluster.nodes)} nodes, {cluster.slots} slots"
    )
    status_table.nodes(cluster, health)
    status_table.missing(record.missing)
    if run_states:
        output.line()
        result_tables.runs_table(run_states[-5:])


def teardown(
    name: Name = None,
    orphans: Annotated[bool, typer.Option("--orphans", help=ORPHANS)] = False,
    forget: Annotated[bool, typer.Option("--forget", help=FORGET)] = False,
    provider: Provider = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --orphans or --forget: do not ask.")] = False,
    discard_metrics: Annotated[bool, typer.Option("--discard-metrics", help=DISCARD)] = False,
    discard_runs: Annotated[bool, typer.Option("--discard-runs", help=DISCARD_RUNS)] = False,
    config_file: ConfigFile = None,
    json: Json = False,
) -> None:
    """Copy the runs to this machine, remove the cluster, and print a receipt of what is gone."""
    chosen = chosen_cluster.state_dir(config_file, name).name
    if orphans and forget:
        raise ConfigError(["--orphans and --forget: choose one"], "--forget first, then --orphans")
    if forget:
        receipt = _forget(chosen, yes)
    elif orphans:
        receipt = _orphans(chosen_cluster.load_config(config_file, chosen, {"provider": provider}, whole=False), yes)
    else:
        receipt = lifecycle_teardown.teardown(
            chosen, _load_if_readable(config_file, chosen, provider), not discard_metrics, discard_runs
        )
    if json:
        output.as_json(receipt)
    elif not forget:
        output.line(str(receipt))
    if receipt.left:
        gone = receipt.left[0].kind == "host" and not any(resource.usable for resource in receipt.left)
        forgets = f"; if they are gone for good: {spell('teardown --forget', chosen)}" if gone else ""
        message = f"{len(receipt.left)} left: {', '.join(map(str, receipt.left))}"
        raise OrchestratorError(message, f"run teardown again{forgets}")


def _load_if_readable(config_file: Path | None, name: str, provider: str | None) -> Config | None:
    """Load cluster.yaml if it can be read; a teardown does not need it."""
    with suppress(OrchestratorError):
        return chosen_cluster.load_config(config_file, name, {"provider": provider}, whole=False)
    return None


def _orphans(config: Config, yes: bool) -> Receipt:
    resources = lifecycle_teardown.orphans(config)
    if resources and not yes:
        progress.note("\n".join(map(str, resources)))
        options.confirm(f"remove these {len(resources)}?", "nothing was removed", yes)
    return lifecycle_teardown.remove_orphans(config, resources)


def _forget(name: str, yes: bool) -> Receipt:
    progress.note(lifecycle_teardown.why_unknown(name))
    options.confirm(
        f"forget cluster {name!r}, although resources of it may exist and cost?", "nothing was changed", yes
    )
    lifecycle_teardown.forget(name)
    return Receipt(name, [], [])
