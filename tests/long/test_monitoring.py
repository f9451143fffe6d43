"""Prometheus, the dashboards, `top` and `metrics` while two nodes train."""

import json
import signal
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from orchestrator.monitoring.current_state import GOING
from scripts.dashboards.queries import IDLE, Query, queries
from tests.e2e.command import Cli, docker, wait_for
from tests.e2e.training import MNIST

CLUSTER = "e2e-watched"
HEAD, WORKER, SECOND = (f"{CLUSTER}-{name}" for name in ("head", "worker-0", "worker-1"))
TRAIN = ("train", "resnet20", "--dataset", "mnist", "--data", MNIST, "--epochs", "100")
TARGETS = "/etc/orchestrator/prometheus/targets.json"
STAND_IN = Path(__file__).parents[1] / "stand_ins" / "nvml_stand_in.py"
WEBHOOK = Path(__file__).parent / "scripts" / "webhook.py"
# Alerts go to two servers on the head. Python's smtpd receives mail; it offers no TLS.
MAIL, POSTED = "/tmp/mail", "/tmp/posted"
RECEIVERS = """
monitoring:
  receivers:
    - {email: someone@example.org, from: cluster@example.org, smarthost: "127.0.0.1:2525", tls: false}
    - {webhook: "http://127.0.0.1:2580/alerts"}
"""
WARM = 45.0  # seconds of training after which rates over 30 s cover training only


@dataclass
class Watch:
    """An open tunnel to the monitoring services of the cluster."""

    command: "subprocess.Popen[str]"
    addresses: dict[str, Any]

    def ask(self, path: str, **parameters: object) -> Any:
        url = f"{self.addresses['prometheus']}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=30) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list[Any]:
        result: list[Any] = self.ask("query", query=expression)["result"]
        return result

    def evaluate(self, query: Query) -> list[Any]:
        """Evaluate a query like Grafana does."""
        if query.kind == "instant":
            return self.query(query.expression)
        now = time.time()
        result: list[Any] = self.ask("query_range", query=query.expression, start=now - 1800, end=now, step=5)["result"]
        return result

    def up(self) -> dict[tuple[str, str], bool]:
        """Return by job and node whether the last scrape succeeded."""
        targets = self.ask("targets", state="active")["activeTargets"]
        return {(target["labels"]["job"], target["labels"]["node"]): target["health"] == "up" for target in targets}

    def empty(self, run: str) -> list[tuple[str, str, str]]:
        """Return the dashboards' queries that have no data, except those that need GPUs."""
        dashboard_queries = queries({"cluster": CLUSTER, "node": [HEAD, WORKER], "run": run})
        return [
            (query.dashboard, query.panel, query.may_be_empty)
            for query in dashboard_queries
            if not query.needs_gpu and not self.evaluate(query)
        ]


@pytest.fixture(scope="module")
def deployed(cli: Cli) -> Iterator[Any]:
    config = cli.state / "watched.yaml"
    config.write_text(RECEIVERS)
    yield cli.json("deploy", "--nodes", "2", "--config", str(config), cluster=CLUSTER)
    cli("teardown", cluster=CLUSTER)


@pytest.fixture(scope="module")
def receivers(deployed: Any) -> None:
    """Start the receivers of alerts on the head."""
    docker("cp", str(WEBHOOK), f"{HEAD}:/tmp/{WEBHOOK.name}")
    python = "exec /opt/orchestrator/bin/python -u"
    mail = f"{python} -W ignore -m smtpd -n -c DebuggingServer 127.0.0.1:2525 > {MAIL}"
    docker("exec", "--detach", HEAD, "sh", "-c", mail)
    docker("exec", "--detach", HEAD, "sh", "-c", f"{python} /tmp/{WEBHOOK.name} 2580 > {POSTED}")


@pytest.fixture(scope="module")
def watch(cli: Cli, deployed: Any) -> Iterator[Watch]:
    with cli.dashboard(CLUSTER) as (process, addresses):
        yield Watch(process, addresses)


@pytest.fixture(scope="module")
def gpus(watch: Watch, deployed: Any) -> None:
    """Simulate two GPUs on the worker: exporter and Prometheus are real."""
    address = deployed["cluster"]["nodes"][WORKER]["private_address"]
    docker("cp", str(STAND_IN), f"{WORKER}:/tmp/{STAND_IN.name}")
    serve = ["/opt/orchestrator/bin/python", f"/tmp/{STAND_IN.name}", "--listen", f"{address}:9400", "--nvml"]
    serve += ["--snapshots", "/tmp/none"]  # the node's own exporter shows the ranks
    docker("exec", "--detach", WORKER, *serve)
    present = "\n".join(docker("exec", HEAD, "cat", TARGETS))
    labels = {"job": "dcgm", "node": WORKER, "cluster": CLUSTER, "role": "worker"}
    target = json.dumps({"targets": [f"{address}:9400"], "labels": labels})
    targets = f"{present[: present.rindex(']')]}, {target}{present[present.rindex(']') :]}"
    write = ["docker", "exec", "--interactive", HEAD, "tee", TARGETS]
    subprocess.run(write, input=targets.encode(), check=True, capture_output=True)
    wait_for("GPUs", lambda: len(watch.query("DCGM_FI_DEV_GPU_UTIL")) == 2, 60)


@pytest.fixture(scope="module")
def trained(cli: Cli, watch: Watch, gpus: None) -> Any:
    """Return measurements taken during a run, and its results."""
    with cli.start(*TRAIN, "--json", cluster=CLUSTER) as training:
        wait_for("the first step", lambda: bool(watch.query("orchestrator_training_step_seconds_count > 0")), 240)
        run = watch.query("orchestrator_training_progress_ratio")[0]["metric"]["run"]
        time.sleep(WARM)
        during = {
            "empty": watch.empty(run),
            "up": watch.up(),
            "ranks": watch.query("orchestrator_training_images_total"),
            "top": cli.json("top", "--once", cluster=CLUSTER),
        }
        wait_for("the end of an epoch", lambda: bool(watch.query("orchestrator_training_epoch > 1")), 600)
        cli("stop", run, cluster=CLUSTER)
        output = training.communicate(timeout=300)[0]
        assert f"run {run} was stopped" in output
    return {"run": run, "during": during, "results": cli.json("results", run, cluster=CLUSTER)}


def test_second_deploy_changes_nothing(cli: Cli, deployed: Any) -> None:
    assert cli.json("deploy", cluster=CLUSTER)["changed"] == {HEAD: 0, WORKER: 0}


def test_nodes_listen_on_private_address_or_localhost_except_ssh(cli: Cli, deployed: Any) -> None:
    for name, node in deployed["cluster"]["nodes"].items():
        listing = cli("ssh", name, "--", "sudo", "ss", "-ltnH", cluster=CLUSTER).stdout.splitlines()
        listeners = {line.split()[3].rpartition(":")[::2] for line in listing}
        private_ports = {port for address, port in listeners if address == node["private_address"]}
        assert {"9100", "9401"} <= private_ports
        elsewhere = {(a, p) for a, p in listeners if a not in (node["private_address"], "127.0.0.1", "127.0.0.11")}
        assert {port for _, port in elsewhere} == {"22"}


def test_every_exporter_and_rank_is_scraped_during_a_run(trained: Any) -> None:
    up = {(job, node): True for job in ("node", "orchestrator") for node in (HEAD, WORKER)}
    assert trained["during"]["up"] == {**up, ("dcgm", WORKER): True}
    assert {(series["metric"]["rank"], series["metric"]["node"]) for series in trained["during"]["ranks"]} == {
        ("0", HEAD),
        ("1", WORKER),
    }


def test_every_dashboard_query_has_data_during_and_after_a_run(watch: Watch, trained: Any) -> None:
    unexpected = [query for query in trained["during"]["empty"] if not query[2] or query[2] == IDLE]
    assert unexpected == []
    assert [query for query in watch.empty(trained["run"]) if not query[2]] == []


def test_top_agrees_with_results_and_parts_sum_to_a_step(cli: Cli, watch: Watch, trained: Any) -> None:
    (during,) = trained["during"]["top"]["runs"]
    wait_for("scrapes without the ranks", lambda: not watch.query(GOING), 45)
    (after,) = cli.json("top", "--once", cluster=CLUSTER)["runs"]
    assert (during["run"], during["running"], after["running"]) == (trained["run"], True, False)
    assert [node["up"] for node in trained["during"]["top"]["nodes"]] == [True, True]
    epochs = trained["results"]["epochs"]
    seconds = [epoch["train"]["images"] / epoch["images_per_second"] for epoch in epochs]
    mean = sum(epoch["train"]["images"] for epoch in epochs) / sum(seconds)
    assert after["images_per_second_mean"] == pytest.approx(mean, rel=0.05)
    for state in (during, after):
        assert sum(state["split_seconds"].values()) == pytest.approx(state["step_seconds"], rel=0.05)
        assert state["split_seconds"]["compute"] > 0


def test_series_end_with_their_rank(watch: Watch, trained: Any) -> None:
    assert watch.query("orchestrator_training_images_total") == []


def test_series_of_a_run_are_written_to_files(cli: Cli, trained: Any, tmp_path: Any) -> None:
    picture = tmp_path / "run.png"
    cli("metrics", trained["run"], "--csv", str(tmp_path / "csv"), "--plot", str(picture), cluster=CLUSTER)
    assert picture.read_bytes().startswith(b"\x89PNG")
    header, *rows = (tmp_path / "csv" / "orchestrator_training_images_total.csv").read_text().splitlines()
    assert {"time", "rank", "node", "value"} <= set(header.split(","))
    assert len(rows) > 10


def test_missing_grafana_is_reported_and_the_rest_works(watch: Watch) -> None:
    if watch.addresses["grafana"] is None:
        assert "on e2e-watched-head" in watch.addresses["grafana_lack"]
    else:
        assert watch.addresses["user"] == "admin"
    assert watch.addresses["alertmanager"].startswith("http://127.0.0.1:")


def test_gpu_queries_have_data_of_the_nvml_exporter(cli: Cli, watch: Watch, trained: Any) -> None:
    dashboard_queries = queries({"cluster": CLUSTER, "node": [WORKER], "run": trained["run"]})
    answers = {
        query: watch.evaluate(query) for query in dashboard_queries if query.needs_gpu and not query.may_be_empty
    }
    assert len(answers) > 10
    assert [query for query, series in answers.items() if not series] == []
    (node,) = [node for node in trained["during"]["top"]["nodes"] if node["node"] == WORKER]
    assert [gpu["gpu"] for gpu in node["gpus"]] == ["0", "1"]


def test_killed_node_raises_an_alert(watch: Watch, trained: Any, receivers: None) -> None:
    docker("kill", WORKER)
    firing = f'ALERTS{{alertname="NodeDown",node="{WORKER}",alertstate="firing"}}'
    wait_for("the alert", lambda: bool(watch.query(firing)), 120)
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
        f"{watch.addresses['alertmanager']}/api/v2/alerts", timeout=30
    ) as answer:
        alerts = json.load(answer)
    assert WORKER in [alert["labels"].get("node") for alert in alerts if alert["labels"]["alertname"] == "NodeDown"]


def test_alert_reaches_mail_and_webhook_with_runbook(watch: Watch, receivers: None) -> None:
    """Depends on the test before, which raised the alert."""

    def posted() -> list[Any]:
        messages = [json.loads(line) for line in docker("exec", HEAD, "cat", POSTED)]
        return [alert for message in messages for alert in message["alerts"]]

    wait_for("the webhook", lambda: any(alert["labels"].get("node") == WORKER for alert in posted()), 90)
    (alert,) = [alert for alert in posted() if alert["labels"].get("node") == WORKER][:1]
    assert (alert["labels"]["alertname"], alert["status"]) == ("NodeDown", "firing")
    assert alert["annotations"]["runbook"] == "docs/alerts.md#nodedown"
    wait_for("the mail", lambda: any("NodeDown" in line for line in docker("exec", HEAD, "cat", MAIL)), 90)
    mail = " ".join(docker("exec", HEAD, "cat", MAIL))
    assert "cluster@example.org" in mail
    assert WORKER in mail


def test_new_node_is_scraped_within_30_seconds(cli: Cli, watch: Watch, trained: Any) -> None:
    cli("deploy", "--nodes", "3", cluster=CLUSTER)
    expected = {(job, node) for job in ("node", "orchestrator") for node in (HEAD, WORKER, SECOND)}
    wait_for("every exporter of three nodes", lambda: {it for it, up in watch.up().items() if up} >= expected, 30)


def test_deploy_that_removes_a_node_raises_no_alert(cli: Cli, watch: Watch, trained: Any) -> None:
    """Depends on the test before, which added the node."""
    started = time.monotonic()
    cli("deploy", "--nodes", "2", cluster=CLUSTER)
    wait_for("its targets to be gone", lambda: {node for _, node in watch.up()} == {HEAD, WORKER}, 30)
    window = f'(up{{node="{SECOND}"}}[{round(time.monotonic() - started)}s])'
    assert watch.query(f'count_over_time(up{{node="{SECOND}"}}[1h])')
    # Prometheus uses a new list of targets after 10 s at most, which are two scrapes; NodeDown takes 20 s.
    failed_scrapes = watch.query(f"count_over_time{window} - sum_over_time{window}")
    assert all(float(job["value"][1]) <= 2 for job in failed_scrapes)
    assert not watch.query(f'ALERTS{{alertname="NodeDown", node="{SECOND}", alertstate="firing"}}')


def test_tunnel_listens_on_localhost_until_interrupted(watch: Watch, trained: Any) -> None:
    port = urllib.parse.urlsplit(watch.addresses["prometheus"]).port
    assert port
    listening = subprocess.run(["ss", "-ltnH"], capture_output=True, text=True, check=True).stdout
    assert [line.split()[3] for line in listening.splitlines() if line.split()[3].endswith(f":{port}")] == [
        f"127.0.0.1:{port}"
    ]
    watch.command.send_signal(signal.SIGINT)
    assert watch.command.wait(20) == 0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 3)


def test_teardown_keeps_the_series_of_runs(cli: Cli, trained: Any) -> None:
    before = cli.json("metrics", trained["run"], cluster=CLUSTER)
    cli("teardown", cluster=CLUSTER)
    after = cli.json("metrics", trained["run"], cluster=CLUSTER)
    assert after["images"] == before["images"] > 0
