"""Commands that show monitoring data: from Prometheus through a tunnel, or from stored files after a teardown."""

import csv
import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.request import urlopen
from uuid import uuid4

import pytest

from orchestrator import state
from orchestrator.cli import monitoring_tables, output
from orchestrator.config import Config, Monitoring
from orchestrator.lifecycle import save_series, teardown
from orchestrator.monitoring import connection, run_series
from orchestrator.monitoring.current_state import GOING, NODES, RUNS, TRAINING, Gpu, Node, RunningRun, Slowest, Top
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
    **prometheus_stand_in.answers_for_run(TRAINED),
    ("query", NODES): vector(),
    ("query", RUNS): vector(),
    ("query", TRAINING % "1m"): vector(*TRAINED),
    ("query", GOING): vector(*(s for s in TRAINED if s.name == PROGRESS)),
}


@pytest.fixture
def state_dir() -> StateDir:
    """Write the state of a cluster with a training run and another one."""
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
    """Simulate a head with Prometheus as its only service."""
    with ExitStack() as stack:
        port = stack.enter_context(prometheus_stand_in.listening(ANSWERS))
        tunnel_stand_in.on_path(stand_in, {connection.PROMETHEUS.port: port}, "no package source has it")
        yield stack


def as_json(cli: Cli, *arguments: str) -> Any:
    finished = cli(*arguments, "--json")
    assert (finished.returncode, finished.stderr) == (0, "")
    return json.loads(finished.stdout)


def update_record(state_dir: StateDir, **changes: Any) -> None:
    record = state.read(state_dir)
    assert record is not None
    state.write(state_dir, record.model_copy(update=changes))


@pytest.mark.usefixtures("state_dir", "head")
def test_top_shows_nodes_and_runs_as_table_and_json(cli: Cli) -> None:
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
def test_top_ends_in_a_script_with_forced_colours(tmp_path: Path) -> None:
    environment = {**os.environ, "FORCE_COLOR": "1"}
    finished = subprocess.run(
        [COMMAND, "top"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert "resnet20-mnist-1" in finished.stdout
    assert set(re.findall(r"\x1b\[[0-9;?]*([A-Za-z])", finished.stdout)) == {"m"}  # colours, no cursor movement


@pytest.mark.usefixtures("state_dir", "head")
def test_interrupt_ends_top_without_an_error(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    environment = {**os.environ, "TERM": "xterm"}
    with subprocess.Popen(
        [COMMAND, "top"], cwd=tmp_path, env=environment, stdout=theirs, stderr=subprocess.PIPE, text=True
    ) as command:
        os.close(theirs)
        screen = ""
        while "demo-worker-0" not in screen:
            screen += os.read(ours, 1 << 16).decode()
        command.send_signal(signal.SIGINT)
        assert (command.communicate(timeout=waiting.DEADLINE)[1], command.returncode) == ("", 0)
    os.close(ours)


def busy_cluster(gpus: int) -> Top:
    """Return the state of two nodes with ``gpus`` GPUs each, and a run."""
    of_node = [Gpu(str(number), "NVIDIA H100 80GB HBM3", 0.97, 3e10, 8e10, 650.0, 61.0) for number in range(gpus)]
    nodes = [Node(name, True, 0.5, 0.3, 1.2e9, 1.1e9, 0.8, of_node) for name in ("demo-head", "demo-worker-0")]
    losses: dict[str, float | None] = {"train": 1.2345, "test": 1.4567}
    split: dict[str, float | None] = {"input": 0.01, "compute": 0.9, "communication": 0.09}
    slowest = Slowest(3, "demo-head", 1.23)
    run = RunningRun(
        "resnet50-imagenette-17", True, "resnet50", "imagenette", 16, 2, 24123.0, 23987.0, losses, losses, 12, 90, 0.2,
        12345.0, split, 0.1, split, slowest,
    )  # fmt: skip
    return Top(NOW, nodes, [run])


def screen(now: Top, width: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(output.console, "width", width)
    with output.console.capture() as captured:
        output.console.print(monitoring_tables.tables("demo", now))
    return [line.rstrip() for line in captured.get().splitlines()]


def test_top_shows_the_whole_run_on_a_small_terminal_with_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = screen(busy_cluster(gpus=8), 80, monkeypatch)
    assert max(map(len, lines)) <= 80
    tables = [line.split() for line in lines[:24]]
    assert ["resnet50-imagenette-17", "16", "24123", "23987", "12/90", "3:25:45"] in tables
    assert "1.2345  1.4567     1%     90%      9%             rank 3 (1.23x)" in "\n".join(lines[:24])
    assert [line.split()[0] for line in lines if "yes" in line] == ["demo-head", "demo-worker-0"]


def test_top_has_one_table_of_runs_on_a_wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = screen(busy_cluster(gpus=0), 160, monkeypatch)
    assert sum(line.startswith("resnet50-imagenette-17") for line in lines) == 1


@pytest.mark.usefixtures("state_dir", "head")
@pytest.mark.parametrize("text", ["soon", "0s", "-1"])
def test_invalid_interval_is_refused(cli: Cli, text: str) -> None:
    finished = cli("top", f"--interval={text}")
    assert (finished.returncode, f"error: --interval: {text!r}: write it like 2s or 1m" in finished.stderr) == (2, True)


@pytest.mark.parametrize(
    "config", [Config(monitoring=Monitoring(enabled=False)).model_dump(mode="json"), {"provider": "local"}]
)
@pytest.mark.parametrize("command", ["top", "dashboard", "metrics"])
def test_cluster_without_monitoring_names_the_option(
    cli: Cli, state_dir: StateDir, command: str, config: dict[str, Any]
) -> None:
    update_record(state_dir, config=config)
    finished = cli(command)
    assert (finished.returncode, finished.stdout) == (1, "")
    remedy = "`orchestrator deploy --monitoring` starts it"
    assert f"error: cluster 'default' has no monitoring\n{remedy}" in finished.stderr


@pytest.mark.usefixtures("state_dir", "head")
def test_metrics_summarises_a_run(cli: Cli) -> None:
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
def test_unwritable_path_for_series_is_named(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    finished = cli("metrics", "--csv", "file")
    assert (finished.returncode, finished.stderr) == (2, "error: --csv: file: File exists\nname a directory\n")


@pytest.mark.usefixtures("state_dir", "head")
def test_series_of_a_run_become_csv_files_and_a_picture(cli: Cli, tmp_path: Path) -> None:
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
def test_script_run_has_no_series(cli: Cli) -> None:
    finished = cli("metrics", "a-script")
    assert (finished.returncode, finished.stdout) == (1, "")


@pytest.mark.usefixtures("state_dir")
def test_run_without_series_of_training_names_the_command_for_its_results(cli: Cli, state_dir: StateDir) -> None:
    directory = state_dir.runs / "resnet20-mnist-1" / "metrics"
    directory.mkdir()
    (directory / "up.csv").write_text("time,value\n1,1\n")
    finished = cli("metrics", "resnet20-mnist-1")
    assert finished.returncode == 1
    assert "`orchestrator results resnet20-mnist-1` shows its results" in finished.stderr


def test_unreachable_prometheus_is_named(cli: Cli, state_dir: StateDir, stand_in: StandIn) -> None:
    stand_in("ssh", "echo no route to it >&2; exit 255")
    finished = cli("top", "--once")
    assert finished.returncode == 1
    assert "no route to it" in finished.stderr
    assert "`orchestrator status --cluster demo` shows whether the head answers" in finished.stderr


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, stand_in: StandIn) -> Iterator[None]:
    """Simulate a Docker Engine without containers, and a Terraform that accepts everything."""
    stand_in("terraform", "exit 0")
    with docker_stand_in.listening({"/containers/json": (200, [[]])}) as address:
        monkeypatch.setenv("DOCKER_HOST", address)
        yield


@pytest.mark.usefixtures("head", "engine")
def test_teardown_keeps_series_and_metrics_reads_them_after_it(
    cli: Cli, state_dir: StateDir, capfd: pytest.CaptureFixture[str]
) -> None:
    teardown.teardown("default")
    assert "could not be saved" not in capfd.readouterr().err
    assert not state_dir.monitoring.exists()
    with_series = {path.parent.parent.name for path in state_dir.runs.glob("*/metrics/*.csv")}
    assert with_series == {"resnet20-mnist-1"}
    assert round(as_json(cli, "metrics")["images_per_second"]) == 576
    assert cli("metrics", "--csv", "series").stderr == "wrote 17 files to series\n"
    completed = cli("metrics", "a-script")
    assert (completed.returncode, "no series of run a-script were kept" in completed.stderr) == (1, True)


@pytest.mark.usefixtures("head", "engine")
def test_teardown_keeps_no_series_if_disabled(cli: Cli, state_dir: StateDir) -> None:
    assert cli("teardown", "--discard-metrics").returncode == 0
    assert list(state_dir.runs.glob("*/metrics")) == []


@pytest.mark.usefixtures("head", "engine")
def test_stored_series_are_not_fetched_again(state_dir: StateDir) -> None:
    run_series.write(TRAINED[:1], state_dir.runs / "resnet20-mnist-1" / "metrics")
    teardown.teardown("default")
    assert len(list(state_dir.runs.glob("*/metrics/*.csv"))) == 1


@pytest.mark.usefixtures("engine")
def test_missing_prometheus_does_not_delay_a_teardown(
    state_dir: StateDir, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(save_series, "ANSWER_SECONDS", 0.5)
    tunnel_stand_in.on_path(stand_in, {})
    teardown.teardown("default")
    assert state.cluster_names() == []
    lost = "metrics of runs resnet20-mnist-1, a-script could not be saved: Prometheus does not answer"
    assert lost in capfd.readouterr().err


@pytest.mark.usefixtures("engine")
def test_teardown_waits_for_slow_prometheus_until_a_limit(
    state_dir: StateDir, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(save_series, "ALL_SERIES_SECONDS", 2.0)
    with prometheus_stand_in.listening(ANSWERS, seconds=0.4) as port:
        tunnel_stand_in.on_path(stand_in, {connection.PROMETHEUS.port: port})
        teardown.teardown("default")
    assert state.cluster_names() == []
    assert "metrics of run resnet20-mnist-1 could not be saved: Prometheus does not answer" in capfd.readouterr().err
    assert list(state_dir.runs.glob("*/metrics")) == []


def open_dashboard(start: Start, *arguments: str, lines: int) -> tuple[Any, list[str]]:
    """Start `orchestrator dashboard` and return it with its first lines."""
    command = start(str(COMMAND), "dashboard", *arguments)
    return command, [waiting.read_line(command) for _ in range(lines)]


def answer(address: str) -> str:
    """Return what a server says, and nothing if there is none."""
    try:
        with urlopen(address, timeout=waiting.DEADLINE) as response:
            return str(response.read().decode())
    except OSError:
        return ""


def is_closed(address: str) -> bool:
    host, _, port = address.removeprefix("http://").partition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) != 0


def test_dashboard_interrupted_after_its_last_line_ends_well(
    start: Start, state_dir: StateDir, head: ExitStack, stand_in: StandIn
) -> None:
    grafana = int(head.enter_context(echo_stand_in.listening("{}")).rpartition(":")[2])
    tunnel_stand_in.on_path(stand_in, {connection.GRAFANA.port: grafana}, connection.INSTALLED)
    command, output = open_dashboard(start, lines=5)
    names, values = zip(*(line.split(": ", 1) for line in output), strict=True)
    assert names == ("Grafana", "user", "password", "Prometheus", "Alertmanager")
    assert values[1:3] == ("admin", f"{PASSWORD} (kept in {state_dir.monitoring})")
    command.send_signal(signal.SIGINT)
    assert command.wait(waiting.DEADLINE) == 0


@pytest.mark.usefixtures("state_dir")
def test_closed_dashboard_leaves_no_tunnel(start: Start, head: ExitStack, stand_in: StandIn) -> None:
    words = str(uuid4())  # another test can take the port when it is free again
    grafana = int(head.enter_context(echo_stand_in.listening(words)).rpartition(":")[2])
    tunnel_stand_in.on_path(stand_in, {connection.GRAFANA.port: grafana}, connection.INSTALLED)
    command, output = open_dashboard(start, lines=5)
    grafana_address, *others = (output[number].split(": ", 1)[1] for number in (0, 3, 4))
    assert answer(grafana_address) == words
    assert not any(map(is_closed, others))
    command.send_signal(signal.SIGINT)
    assert command.wait(waiting.DEADLINE) == 0
    assert answer(grafana_address) != words


@pytest.mark.usefixtures("state_dir", "head")
def test_missing_grafana_is_explained_in_one_line(start: Start) -> None:
    _, output = open_dashboard(start, lines=3)
    assert output[0] == "Grafana: none: no package source has it"
    assert output[1].startswith("Prometheus: http://127.0.0.1:")
    assert not is_closed(output[1].partition(": ")[2])


@pytest.mark.usefixtures("head")
def test_dashboard_json_has_the_password_file_not_the_password(
    start: Start, state_dir: StateDir, head: ExitStack, stand_in: StandIn
) -> None:
    grafana = int(head.enter_context(echo_stand_in.listening("{}")).rpartition(":")[2])
    tunnel_stand_in.on_path(stand_in, {connection.GRAFANA.port: grafana}, connection.INSTALLED)
    _, output = open_dashboard(start, "--json", lines=7)
    answer = json.loads("".join(output))
    assert (answer["user"], answer["password_file"]) == ("admin", str(state_dir.monitoring))
    assert answer["grafana"].startswith("http://127.0.0.1:")
