"""Commands for monitoring: current state, the series of a run, and dashboards in a browser."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.live import Live

from orchestrator import plot, progress, state
from orchestrator.cli import chosen_cluster, monitoring_tables, output
from orchestrator.cli.held_tunnel import held_tunnel
from orchestrator.cli.notebook import Open
from orchestrator.cli.options import ConfigFile, Json, Name
from orchestrator.cli.runs import RunName
from orchestrator.cluster import Cluster
from orchestrator.config.section import seconds
from orchestrator.errors import ConfigError, StateError, command
from orchestrator.monitoring import connection, current_state, grafana_password, run_series, series_summary
from orchestrator.monitoring.prometheus import Series
from orchestrator.plot import timeline_plot
from orchestrator.runs import store
from orchestrator.runs.run_record import Run
from orchestrator.schema.bounded_files import shown
from orchestrator.schema.csv_cells import no_formula
from orchestrator.services import tunnel
from orchestrator.services.tunnel import Service
from orchestrator.state import StateDir

LONGEST_PAUSE = 24 * 3600.0  # seconds
RAY_SECONDS = 20.0  # for Ray's dashboard to answer, which it does only while a run of Ray is active

Port = Annotated[
    int | None,
    typer.Option(min=1, max=65535, help="Port on this machine; default: the same as on the head, or a free one."),
]
Once = Annotated[
    bool,
    typer.Option(
        "--once", help="Print once and exit; also the default with --json, or if the output is not a terminal."
    ),
]
Interval = Annotated[str, typer.Option(help="Time between two updates.")]
Ray = Annotated[bool, typer.Option("--ray", help="Open Ray's dashboard instead, while a run with Ray is in progress.")]
Csv = Annotated[Path | None, typer.Option(help="Directory to write all metrics to, one CSV file per metric.")]
Plot = Annotated[
    Path | None, typer.Option("--plot", help="Picture file to draw images/s, loss and the parts of a step into.")
]


def register(app: typer.Typer) -> None:
    app.command(name="top")(show_top)
    app.command()(dashboard)
    app.command()(metrics)


def show_top(
    once: Once = False, interval: Interval = "2s", config_file: ConfigFile = None, name: Name = None, json: Json = False
) -> None:
    """Show the state of nodes and runs until Ctrl-C."""
    pause = _pause(interval)
    state_dir, record, cluster = chosen_cluster.deployed(config_file, name)
    with connection.connect(state_dir, record, cluster) as (prometheus, opened):
        now = current_state.query_top(prometheus, list(cluster.nodes))
        if json:
            return output.as_json(now)
        if once or not output.console.is_terminal:
            return output.console.print(monitoring_tables.tables(cluster.name, now))
        first = monitoring_tables.tables(cluster.name, now)
        with suppress(KeyboardInterrupt), Live(first, console=output.console, screen=True) as live:
            while True:
                opened.wait(pause)
                live.update(
                    monitoring_tables.tables(cluster.name, current_state.query_top(prometheus, list(cluster.nodes))),
                    refresh=True,
                )


def _pause(text: str) -> float:
    value = seconds(text)
    if not isinstance(value, float) or not 0 < value <= LONGEST_PAUSE:
        raise ConfigError([f"--interval: {shown(text)}: write it like 2s or 1m, up to {LONGEST_PAUSE / 3600:.0f}h"])
    return value


def dashboard(
    port: Port = None,
    browser: Open = False,
    ray: Ray = False,
    config_file: ConfigFile = None,
    name: Name = None,
    json: Json = False,
) -> None:
    """Open a tunnel to Grafana, Prometheus and Alertmanager, and print their addresses; Ctrl-C closes it."""
    state_dir, record, cluster = chosen_cluster.deployed(config_file, name)
    if ray:
        return _ray_dashboard(state_dir, cluster, port, browser, json)
    connection.require(state_dir, record)
    lack = connection.grafana_lack(state_dir, record, cluster)
    services = [*([] if lack else [connection.GRAFANA]), connection.PROMETHEUS, connection.ALERTMANAGER]
    ports = tunnel.free_ports(services, port)
    addresses = {service.name: f"http://{tunnel.LOCALHOST}:{local_port}" for service, local_port in ports.items()}
    browse = addresses[services[0].name] if browser else None
    with held_tunnel(state_dir, cluster, ports, connection.ANSWER_SECONDS, browse):
        if json:
            output.as_json(_described(state_dir, addresses, lack))
        else:
            _say(state_dir, addresses, lack)


def _ray_dashboard(state_dir: StateDir, cluster: Cluster, port: int | None, browser: bool, json: bool) -> None:
    ports = tunnel.free_ports([connection.RAY], port)
    address = f"http://{tunnel.LOCALHOST}:{ports[connection.RAY]}"
    with held_tunnel(state_dir, cluster, ports, RAY_SECONDS, address if browser else None):
        token = connection.ray_token(state_dir, cluster)
        output.as_json({"ray": address, "token": token}) if json else output.line(f"Ray: {address} (token {token})")


def _described(state_dir: StateDir, addresses: dict[str, str], lack: str) -> dict[str, object]:
    names: tuple[Service, ...] = (connection.GRAFANA, connection.PROMETHEUS, connection.ALERTMANAGER)
    urls = {service.name.lower(): addresses.get(service.name) for service in names}
    login = (
        {"user": grafana_password.USER, "password_file": state_dir.monitoring} if not lack else {"grafana_lack": lack}
    )
    return {**urls, **login}


def _say(state_dir: StateDir, addresses: dict[str, str], lack: str) -> None:
    if lack:
        output.line(f"Grafana: none: {lack}")
    for service, address in addresses.items():
        output.line(f"{service}: {address}")
        if service == connection.GRAFANA.name:
            password = grafana_password.read(state_dir)
            output.line(f"user: {grafana_password.USER}\npassword: {password} (kept in {state_dir.monitoring})")


def metrics(
    run: RunName = None,
    csv: Csv = None,
    plot_file: Plot = None,
    config_file: ConfigFile = None,
    name: Name = None,
    json: Json = False,
) -> None:
    """Summarize the metrics of a run, also after a teardown; write them as CSV files, or draw them."""
    if plot_file:
        plot.require(plot_file)
    state_dir = chosen_cluster.state_dir(config_file, name)
    chosen = store.get(state_dir, run)
    samples = _series(state_dir, chosen)
    if csv:
        progress.note(f"wrote {_written(samples, csv)} files to {csv}")
    if plot_file:
        timeline_plot.draw(samples, chosen.id, plot_file)
        progress.note(f"wrote {plot_file}")
    training = series_summary.by_run(samples).get(chosen.id)
    if training is None:
        raise StateError(
            f"run {chosen.id} has no training series",
            f"{command(f'results {chosen.id}', state_dir.name)} shows its results",
        )
    output.as_json(training) if json else monitoring_tables.run(training)


def _written(samples: list[Series], csv: Path) -> int:
    safe = [replace(one, labels={name: no_formula(text) for name, text in one.labels.items()}) for one in samples]
    try:
        return run_series.write(safe, csv)
    except OSError as error:
        raise ConfigError([f"--csv: {csv}: {error.strerror}"], "name a directory") from error


def _series(state_dir: StateDir, run: Run) -> list[Series]:
    """Read the saved series of a run, else fetch them from Prometheus."""
    saved = run_series.directory(state_dir, run)
    if saved.is_dir():
        return run_series.read(saved)
    record = state.read(state_dir)
    if record is None or record.cluster is None:
        hint = "a teardown keeps them if the cluster has monitoring, unless --discard-metrics is given"
        raise StateError(f"no series of run {run.id} were kept, and its cluster is gone", hint)
    with connection.connect(state_dir, record, record.cluster) as (prometheus, _):
        return run_series.fetch(prometheus, run, store.status(state_dir, run))
