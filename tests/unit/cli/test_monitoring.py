"""The commands that look into a cluster, through a tunnel: at Prometheus while it is there, at what was kept after."""

import csv
import json
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from orchestrator import state
from orchestrator.config import Config, Monitoring
from orchestrator.lifecycle import archive, teardown
from orchestrator.monitoring import connection, series
from orchestrator.monitoring.top import GOING, NODES, RUNS, TRAINING
from orchestrator.schema import RunStatus
from orchestrator.state import StateDir
from tests import builders, waiting
from tests.stand_ins import docker_stand_in, echo_stand_in, prometheus_stand_in, tunnel_stand_in
from tests.stand_ins.prometheus_stand_in import NOW, vector
from tests.unit.conftest import COMMAND, Cli, StandIn, Start

PASSWORD = "correct horse battery"  # noqa: S105
TRAINED = prometheus_stand_in.training()
PROGRESS = "orchestrator_training_progress_ratio"
ANSWERS = {
    **prometheus_stand_in.answered(TRAINED),
    ("query", NODES): vector(),
    ("query", RUNS): vector(),
    ("query", TRAINING % "1m"): vector(*TRAINED),
    ("query", GOING): vector(*(s for s in TRAINED if s.name == PROGRESS)),
}


@pytest.fixture
def state_dir() -> StateDir:
    """A cluster with a run that trained and one that did not."""
    state_dir = builders.deployed()
    state.replace(state_dir.monitoring, json.dumps({"password": PASSWORD}))
    for name, started in (("a-script", NOW - 500.0), ("resnet20-mnist-1", NOW - 60.0)):
        run = builders.run(id=name, started=started)
        state.replace(state_dir.runs / name / "run.json", run.model_dump_json())
        RunStatus(state="finished", exit_code=0, started=started, ended=NOW).write(
            state_dir.runs / name / "status.json"
        )
    return state_dir


@pytest.fixture
def head(stand_in: StandIn) -> Iterator[ExitStack]:
    """A head on which Prometheus answers and nothing else."""
    with ExitStack() as stack:
        port = stack.enter_context(prometheus_stand_in.listening(ANSWERS))
        tunnel_stand_in.on_path(stand_in, {connection.PROMETHEUS.port: port}, "no package source has it")
        yield stack


def as_json(cli: Cli, *arguments: str) -> Any:
    finished = cli(*arguments, "--json")
    assert (finished.returncode, finished.stderr) == (0, "")
    return json.loads(finished.stdout)


def recorded(state_dir: StateDir, **changes: Any) -> None:
    record = state.read(state_dir)
    assert record is not None
    state.write(state_dir, record.model_copy(update=changes))


@pytest.mark.usefixtures("state_dir", "head")
def test_top_shows_nodes_and_runs_once_and_for_machines(cli: Cli) -> None:
    for finished in (cli("top", "--once"), cli("top")):  # a pipe gets one table
        assert (finished.returncode, finished.stderr) == (0, "")
        lines = [line.split() for line in finished.stdout.splitlines()]
        assert ["demo-head", "NO", *["-"] * 6] in lines
        assert next(line for line in lines if line[:1] == ["resnet20-mnist-1"])[1:7] == [
            *("2", "-", "576", "0.5000", "0.7500", "2/4")
        ]
    top = as_json(cli, "top")
    assert [node["node"] for node in top["nodes"]] == ["demo-head", "demo-worker-0"]
    assert [(run["run"], round(run["images_per_second_mean"])) for run in top["runs"]] == [("resnet20-mnist-1", 576)]


@pytest.mark.usefixtures("state_dir", "head")
@pytest.mark.parametrize("text", ["soon", "0s", "-1"])
def test_an_interval_that_is_none_is_refused(cli: Cli, text: str) -> None:
    finished = cli("top", f"--interval={text}")
    assert (finished.returncode, f"error: --interval: {text!r}: write it like 2s or 1m" in finished.stderr) == (2, True)


@pytest.mark.parametrize(
    "config", [Config(monitoring=Monitoring(enabled=False)).model_dump(mode="json"), {"provider": "local"}]
)
@pytest.mark.parametrize("command", ["top", "dashboard", "metrics"])
def test_a_cluster_without_monitoring_says_how_to_get_it(
    cli: Cli, state_dir: StateDir, command: str, config: dict[str, Any]
) -> None:
    recorded(state_dir, config=config)
    finished = cli(command)
    assert (finished.returncode, finished.stdout) == (1, "")
    remedy = "`orchestrator deploy --monitoring` starts it"
    assert f"error: cluster 'default' has no monitoring\n{remedy}" in finished.stderr


@pytest.mark.usefixtures("state_dir", "head")
def test_a_run_is_told_in_short(cli: Cli) -> None:
    lines = cli("metrics").stdout.splitlines()
    assert lines[0] == "run resnet20-mnist-1: resnet20 on mnist, 2 ranks on 2 nodes"
    assert ["images/s", "576"] in [line.split() for line in lines]
    assert lines[-1].split() == [
        *("1", "demo-worker-0", "256", "125.0", "ms", "25.0", "ms", "62.5", "ms", "37.5", "ms")
    ]
    summary = as_json(cli, "metrics", "resnet20-mnist-1")
    assert (summary["images"], round(summary["images_per_second"]), summary["nodes"]) == (
        6464,
        576,
        ["demo-head", "demo-worker-0"],
    )


@pytest.mark.usefixtures("state_dir", "head")
def test_series_that_cannot_be_written_are_said_with_the_path_that_was_given(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    finished = cli("metrics", "--csv", "file")
    assert (finished.returncode, finished.stderr) == (2, "error: --csv: file: File exists\nname a directory\n")


@pytest.mark.usefixtures("state_dir", "head")
def test_the_series_of_a_run_become_csv_files_and_a_picture(cli: Cli, tmp_path: Path) -> None:
    finished = cli("metrics", "--csv", "series", "--plot", "run.png")
    assert finished.stderr == "wrote 17 files to series\nwrote run.png\n"
    rows = list(csv.DictReader((tmp_path / "series" / "orchestrator_training_images_total.csv").open()))
    assert [(row["rank"], row["value"]) for row in rows] == [
        *(("0", value) for value in ("1616.0", "3232.0")),
        *(("1", value) for value in ("1616.0", "3232.0")),
    ]
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")
    assert cli("metrics", "--plot", "run.txt").returncode == 2


@pytest.mark.usefixtures("state_dir", "head")
def test_a_run_that_is_no_training_has_no_series(cli: Cli) -> None:
    finished = cli("metrics", "a-script")
    assert (finished.returncode, finished.stdout) == (1, "")


def test_a_prometheus_that_does_not_answer_is_named(cli: Cli, state_dir: StateDir, stand_in: StandIn) -> None:
    stand_in("ssh", "echo no route to it >&2; exit 255")
    finished = cli("top", "--once")
    assert finished.returncode == 1
    assert "no route to it" in finished.stderr
    assert "`orchestrator status --cluster demo` shows whether the head answers" in finished.stderr


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, stand_in: StandIn) -> Iterator[None]:
    """Docker without containers, and a Terraform that agrees to everything."""
    stand_in("terraform", "exit 0")
    with docker_stand_in.listening({"/containers/json": (200, [[]])}) as address:
        monkeypatch.setenv("DOCKER_HOST", address)
        yield


@pytest.mark.usefixtures("head", "engine")
def test_a_teardown_keeps_the_series_of_runs_that_have_some_and_metrics_tells_them_after_it(
    cli: Cli, state_dir: StateDir, capfd: pytest.CaptureFixture[str]
) -> None:
    teardown.teardown("default")
    assert "could not be kept" not in capfd.readouterr().err
    assert not state_dir.monitoring.exists()
    with_series = {path.parent.parent.name for path in state_dir.runs.glob("*/metrics/*.csv")}
    assert with_series == {"resnet20-mnist-1"}
    assert round(as_json(cli, "metrics")["images_per_second"]) == 576
    assert cli("metrics", "--csv", "series").stderr == "wrote 17 files to series\n"
    gone = cli("metrics", "a-script")
    assert (gone.returncode, "no series of run a-script were kept" in gone.stderr) == (1, True)


@pytest.mark.usefixtures("head", "engine")
def test_a_teardown_keeps_none_where_it_is_told_so(cli: Cli, state_dir: StateDir) -> None:
    assert cli("teardown", "--discard-metrics").returncode == 0
    assert list(state_dir.runs.glob("*/metrics")) == []


@pytest.mark.usefixtures("head", "engine")
def test_what_was_kept_is_not_asked_for_again(state_dir: StateDir) -> None:
    series.write(TRAINED[:1], state_dir.runs / "resnet20-mnist-1" / "metrics")
    teardown.teardown("default")
    assert len(list(state_dir.runs.glob("*/metrics/*.csv"))) == 1


@pytest.mark.usefixtures("engine")
def test_a_prometheus_that_is_gone_holds_no_teardown_up(
    state_dir: StateDir, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(archive, "ANSWER_SECONDS", 0.5)
    tunnel_stand_in.on_path(stand_in, {})
    teardown.teardown("default")
    assert state.cluster_names() == []
    assert "metrics of runs could not be saved: Prometheus does not answer" in capfd.readouterr().err


@pytest.mark.usefixtures("engine")
def test_a_prometheus_that_is_slow_is_waited_for_so_long_and_no_longer(
    state_dir: StateDir, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(archive, "SERIES_SECONDS", 2.0)
    with prometheus_stand_in.listening(ANSWERS, seconds=0.4) as port:
        tunnel_stand_in.on_path(stand_in, {connection.PROMETHEUS.port: port})
        teardown.teardown("default")
    assert state.cluster_names() == []
    assert "metrics of runs could not be saved: Prometheus does not answer" in capfd.readouterr().err
    assert list(state_dir.runs.glob("*/metrics")) == []


def opened(start: Start, *arguments: str, lines: int) -> tuple[Any, list[str]]:
    """`orchestrator dashboard` under way, and what it printed."""
    command = start(str(COMMAND), "dashboard", *arguments)
    return command, [waiting.line(command) for _ in range(lines)]


def closed(address: str) -> bool:
    host, _, port = address.removeprefix("http://").partition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) != 0


def test_a_dashboard_is_where_grafana_is_until_it_is_interrupted(
    start: Start, state_dir: StateDir, head: ExitStack, stand_in: StandIn
) -> None:
    grafana = int(head.enter_context(echo_stand_in.listening("{}")).rpartition(":")[2])
    tunnel_stand_in.on_path(stand_in, {connection.GRAFANA.port: grafana}, connection.THERE)
    command, output = opened(start, lines=5)
    names, values = zip(*(line.split(": ", 1) for line in output), strict=True)
    assert names == ("Grafana", "user", "password", "Prometheus", "Alertmanager")
    assert values[1:3] == ("admin", f"{PASSWORD} (kept in {state_dir.monitoring})")
    assert not any(closed(values[number]) for number in (0, 3, 4))
    command.send_signal(signal.SIGINT)
    assert command.wait(waiting.DEADLINE) == 130
    assert all(closed(values[number]) for number in (0, 3, 4))


@pytest.mark.usefixtures("state_dir", "head")
def test_without_grafana_a_dashboard_says_why_in_one_line_and_where_prometheus_is(start: Start) -> None:
    _, output = opened(start, lines=3)
    assert output[0] == "Grafana: none: no package source has it"
    assert output[1].startswith("Prometheus: http://127.0.0.1:")
    assert not closed(output[1].partition(": ")[2])


@pytest.mark.usefixtures("head")
def test_a_dashboard_for_machines_names_the_file_of_the_password_and_not_the_password(
    start: Start, state_dir: StateDir, head: ExitStack, stand_in: StandIn
) -> None:
    grafana = int(head.enter_context(echo_stand_in.listening("{}")).rpartition(":")[2])
    tunnel_stand_in.on_path(stand_in, {connection.GRAFANA.port: grafana}, connection.THERE)
    _, output = opened(start, "--json", lines=7)
    answer = json.loads("".join(output))
    assert (answer["user"], answer["password_file"]) == ("admin", str(state_dir.monitoring))
    assert answer["grafana"].startswith("http://127.0.0.1:")
