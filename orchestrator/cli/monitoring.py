"""Commands for monitoring: current state, the series of a run, and dashboards in a browser."""

from pathlib import Path
from typing import Annotated

import typer
from rich.live import Live

from orchestrator import plot, progress, state
from orchestrator.cli import monitoring_view, options, output
from orchestrator.cli.notebook import Open, hold
from orchestrator.cli.options import ConfigFile, Json, Name
from orchestrator.cli.runs import RunName
from orchestrator.config.sections import seconds
from orchestrator.errors import ConfigError, StateError, command
from orchestrator.monitoring import connection, grafana_password, series, summary, top
from orchestrator.monitoring.prometheus import Series
from orchestrator.plot import timeline
from orchestrator.runs import store
from orchestrator.runs.launch import Run
from orchestrator.schema.bounded import shown
from orchestrator.services import tunnel
from orchestrator.services.tunnel import Service
from orchestrator.state import Home

LONGEST_PAUSE = 24 * 3600.0  # seconds

Port = Annotated[
    int | None, typer.Option(min=1, max=65535, help="Port of this machine; default: the head's, or a free one.")
]
Once = Annotated[bool, typer.Option("--once", help="Print it once; so does a pipe, and --json.")]
Interval = Annotated[str, typer.Option(help="Time between two looks.")]
Csv = Annotated[Path | None, typer.Option(help="Directory to write all series into, a CSV file per metric.")]
Plot = Annotated[Path | None, typer.Option("--plot", help="File to draw images/s, loss and the time split into.")]


def register(app: typer.Typer) -> None:
    app.command(name="top")(show_top)
    app.command()(dashboard)
    app.command()(metrics)


def show_top(
    once: Once = False, interval: Interval = "2s", config_file: ConfigFile = None, name: Name = None, json: Json = False
) -> None:
    """Show what nodes and runs do now, until Ctrl-C."""
    pause = _pause(interval)
    place, record, made = options.deployed(config_file, name)
    with connection.asking(place, record, made) as (prometheus, wait):
        found = top.look(prometheus, list(made.nodes))
        if json:
            return output.as_json(found)
        if once or not output.console.is_terminal:
            return output.console.print(monitoring_view.everything(made.name, found))
        with Live(monitoring_view.everything(made.name, found), console=output.console, screen=True) as live:
            while True:
                wait(pause)
                live.update(monitoring_view.everything(made.name, top.look(prometheus, list(made.nodes))), refresh=True)


def _pause(text: str) -> float:
    value = seconds(text)
    if not isinstance(value, float) or not 0 < value <= LONGEST_PAUSE:
        raise ConfigError([f"--interval: {shown(text)}: write it like 2s or 1m, up to {LONGEST_PAUSE / 3600:.0f}h"])
    return value


def dashboard(
    port: Port = None, browser: Open = False, config_file: ConfigFile = None, name: Name = None, json: Json = False
) -> None:
    """Open a tunnel to Grafana, Prometheus and Alertmanager, and print their addresses; Ctrl-C closes it."""
    place, record, made = options.deployed(config_file, name)
    connection.require(place, record)
    lack = connection.grafana_lack(place, record, made)
    services = [*([] if lack else [connection.GRAFANA]), connection.PROMETHEUS, connection.ALERTMANAGER]
    ports = tunnel.free_ports(services, port)
    addresses = {service.name: f"http://{tunnel.HERE}:{here}" for service, here in ports.items()}
    with tunnel.opened(place, made, ports, connection.ANSWER_SECONDS) as open_tunnel:
        if json:
            output.as_json(_described(place, addresses, lack))
        else:
            _say(place, addresses, lack)
        hold(open_tunnel, addresses[services[0].name] if browser else None)


def _described(place: Home, addresses: dict[str, str], lack: str) -> dict[str, object]:
    names: tuple[Service, ...] = (connection.GRAFANA, connection.PROMETHEUS, connection.ALERTMANAGER)
    found = {service.name.lower(): addresses.get(service.name) for service in names}
    login = {"user": grafana_password.USER, "password_file": place.monitoring} if not lack else {"grafana_lack": lack}
    return {**found, **login}


def _say(place: Home, addresses: dict[str, str], lack: str) -> None:
    if lack:
        output.line(f"Grafana: none: {lack}")
    for service, address in addresses.items():
        output.line(f"{service}: {address}")
        if service == connection.GRAFANA.name:
            output.line(
                f"user: {grafana_password.USER}\npassword: {grafana_password.read(place)} (kept in {place.monitoring})"
            )


def metrics(
    run: RunName = None,
    csv: Csv = None,
    plot_file: Plot = None,
    config_file: ConfigFile = None,
    name: Name = None,
    json: Json = False,
) -> None:
    """Show what the series of a run say in short, also after a teardown; write them as CSV, or as a picture."""
    if plot_file:
        plot.require(plot_file)
    place = options.place(config_file, name)
    chosen = store.get(place, run)
    found = _series(place, chosen)
    if csv:
        progress.note(f"wrote {_written(found, csv)} files to {csv}")
    if plot_file:
        timeline.draw(found, chosen.id, plot_file)
        progress.note(f"wrote {plot_file}")
    told = summary.by_run(found).get(chosen.id)
    if told is None:
        raise StateError(
            f"run {chosen.id} has no training series", f"{command('results', place.name)} shows what it left"
        )
    output.as_json(told) if json else monitoring_view.run(told)


def _written(found: list[Series], csv: Path) -> int:
    try:
        return series.write(found, csv)
    except OSError as error:
        raise ConfigError([f"--csv: {csv}: {error.strerror}"], "name a directory") from error


def _series(place: Home, run: Run) -> list[Series]:
    """Read the saved series of a run, else fetch them from Prometheus."""
    kept = series.directory(place, run)
    if kept.is_dir():
        return series.read(kept)
    record = state.read(place)
    if record is None or record.cluster is None:
        hint = "a teardown keeps them where there is monitoring, and no --discard-metrics"
        raise StateError(f"no series of run {run.id} were kept, and its cluster is gone", hint)
    status = store.status(place, run)
    with connection.asking(place, record, record.cluster) as (prometheus, _):
        return series.fetch(prometheus, run, status.ended if status else None)
