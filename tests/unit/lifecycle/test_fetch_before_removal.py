"""Runs that a deploy fetches, or refuses to lose, before it replaces the head."""

import json
import os
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from orchestrator import cluster as clusters
from orchestrator import state
from orchestrator.errors import StateError
from orchestrator.lifecycle import fetch_before_removal, save_series
from orchestrator.monitoring import connection, run_series
from orchestrator.runs import fetch_limits, run_record
from orchestrator.schema import RunStatus
from orchestrator.state import StateDir
from orchestrator.terraform import sources, state_file
from tests import builders
from tests.stand_ins import (
    google_stand_in,
    google_stand_in_data,
    prometheus_stand_in,
    ssh_stand_in,
    tunnel_stand_in,
)
from tests.stand_ins.google_stand_in_memory import StandIn
from tests.stand_ins.prometheus_stand_in import NOW
from tests.unit import conftest
from tests.unit.providers import test_gcp


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use no waiting times: no address in these tests answers."""
    monkeypatch.setattr(fetch_before_removal, "HEAD_SECONDS", 0.2)
    monkeypatch.setattr(fetch_before_removal, "PAUSE_SECONDS", 0.05)


APPLIED = {"nodes": 2, "ssh_public_key": "key", "gcp": {"disk_size": 50, "worker": {"machine_type": "n1"}}}


def applied(provider: str = "gcp", storage: str = "nfs") -> StateDir:
    """Write the state of a cluster with a run that was not fetched, and with an unreachable head."""
    state_dir, output = builders.deployed("demo"), builders.output()
    for number, node in enumerate(output["nodes"].values()):
        node["private_address"] = f"127.0.99.{number}"  # no node has this address
    cluster = clusters.read({**output, "storage": storage})
    record = builders.read_record(state_dir)
    changes = {"cluster": cluster, "applied": APPLIED, "config": {**record.config, "provider": provider}}
    state.write(state_dir, record.model_copy(update=changes))
    state.replace(state_dir.known_hosts, "")
    for name, text in sources._files("gcp").items():
        state.replace(state_dir.terraform / name, text)
    state.replace(state_dir.runs / "a" / "run.json", builders.run(id="a").model_dump_json())
    return state_dir


def changed(**gcp: Any) -> dict[str, Any]:
    return {**APPLIED, "gcp": {**APPLIED["gcp"], **gcp}}  # type: ignore[dict-item]


def test_replacing_the_head_with_the_only_copy_of_a_run_is_refused() -> None:
    state_dir = applied()
    with pytest.raises(StateError, match="1 run is not fetched\na: the head does not answer") as caught:
        fetch_before_removal.before_new_head(state_dir, builders.read_record(state_dir), changed(disk_size=100))
    assert caught.value.hint == (
        "`orchestrator deploy --cluster demo` with the previous settings keeps the head; "
        "`orchestrator teardown --discard-runs --cluster demo` gives up these runs"
    )


def test_changes_of_workers_need_no_check_of_runs() -> None:
    state_dir = applied()
    fetch_before_removal.before_new_head(
        state_dir, builders.read_record(state_dir), {**changed(worker={"machine_type": "n2"}), "nodes": 8}
    )


def test_head_without_unfetched_runs_may_be_replaced() -> None:
    state_dir = applied()
    (state_dir.runs / "a" / "run.json").unlink()
    fetch_before_removal.before_new_head(state_dir, builders.read_record(state_dir), changed(spot=True))


@pytest.mark.parametrize(("provider", "storage"), [("hosts", "nfs"), ("local", "mounted")])
def test_shared_storage_outside_the_head_needs_no_check(provider: str, storage: str) -> None:
    state_dir = applied(provider, storage)
    fetch_before_removal.before_new_head(state_dir, builders.read_record(state_dir), {"nodes": 2})


def test_broken_head_with_the_only_copy_of_a_run_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The configuration is unchanged, but an instance without a boot disk would be replaced."""
    state_dir = applied()
    values = {"project": google_stand_in_data.PROJECT}
    record = builders.read_record(state_dir)
    same = {**APPLIED, "gcp": {**APPLIED["gcp"], **values}}  # type: ignore[dict-item]
    record = record.model_copy(update={"id": test_gcp.ID, "variables": same, "applied": same})
    head = {"type": "google_compute_instance", "name": "node"}
    instance = {"index_key": "demo-head", "attributes": {"id": f"{test_gcp.INSTANCES}/demo-head"}}
    document = {"version": 4, "resources": [{**head, "instances": [instance]}]}
    state.replace(state_dir.terraform / "gcp" / state_file.FILE, json.dumps(document))
    with google_stand_in.listening(cloud := StandIn(), monkeypatch):
        test_gcp.node(cloud, "demo-head")
        fetch_before_removal.before_new_head(state_dir, record, same)
        cloud.items[f"{test_gcp.INSTANCES}/demo-head"]["disks"] = []
        with pytest.raises(StateError, match="may replace the head"):
            fetch_before_removal.before_new_head(state_dir, record, same)


def test_upgraded_root_keeps_a_head_with_the_only_copy_of_a_run() -> None:
    """After an upgrade without other changes."""
    state_dir = applied()
    (state_dir.terraform / "gcp" / "nodes.tf").write_text("# of an older version")
    with pytest.raises(StateError, match="may replace the head"):
        fetch_before_removal.before_new_head(state_dir, builders.read_record(state_dir), APPLIED)


@pytest.mark.parametrize(("host_keys", "lost"), [({"id-before": "key"}, ["a"]), ({}, [])])
def test_runs_may_be_lost_only_once_a_head_was_reached(host_keys: dict[str, str], lost: list[str]) -> None:
    """After a deploy that ended before it reached the head: a new one, or the first."""
    state_dir = applied()
    record = builders.read_record(state_dir).model_copy(update={"host_keys": host_keys})
    assert list(fetch_before_removal.fetch(state_dir, record, stop=False, seconds=0.0)) == lost


def test_unreachable_head_is_retried(capsys: pytest.CaptureFixture[str]) -> None:
    state_dir = applied()
    assert list(fetch_before_removal.fetch(state_dir, builders.read_record(state_dir), stop=False, seconds=0.2)) == [
        "a"
    ]
    assert capsys.readouterr().err.count("retrying for") == 1


def test_discarded_runs_are_not_fetched_again() -> None:
    state_dir = applied()
    fetch_before_removal.mark_lost(state_dir, ["a"])
    fetch_before_removal.before_new_head(state_dir, builders.read_record(state_dir), changed(spot=True))


@pytest.mark.parametrize("variables", [changed(disk_size=100), changed(spot=True)])
def test_deploy_refuses_to_lose_a_run_with_a_damaged_record(variables: dict[str, Any]) -> None:
    state_dir = applied()
    record = state_dir.runs / "a" / "run.json"
    record.write_bytes(b"\xff")
    with pytest.raises(StateError, match=f"1 run is not fetched\na: {record}: line 1: not UTF-8 .*restore it"):
        fetch_before_removal.before_new_head(state_dir, builders.read_record(state_dir), variables)


def test_damaged_record_of_a_fetched_or_discarded_run_is_ignored() -> None:
    state_dir = applied()
    (state_dir.runs / "a" / "run.json").write_bytes(b"5")
    RunStatus(state="finished", exit_code=0, started=1.0, ended=2.0).write(state_dir.runs / "a" / "status.json")
    state.replace(state_dir.runs / "b" / "run.json", "5")
    assert list(fetch_before_removal.fetch(state_dir, builders.read_record(state_dir), stop=True, seconds=0.0)) == ["b"]
    fetch_before_removal.mark_lost(state_dir, ["b"])
    assert fetch_before_removal.fetch(state_dir, builders.read_record(state_dir), stop=True, seconds=0.0) == {}


def test_head_is_asked_once_for_output_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_record, "SHARED", str(tmp_path / "shared"))
    monkeypatch.setattr(fetch_limits, "MOST_FILES", fetch_limits.OTHER_FILES)
    run, asked = builders.run(id="a"), list[str]()
    (Path(run.directory) / "output" / "weights").mkdir(parents=True)

    def answer(command: str) -> bytes | None:
        asked.append(command)
        return b"" if "systemctl" in command else None

    state_dir = state.for_cluster("demo")
    with ssh_stand_in.session(answer) as head:
        reason = fetch_before_removal._save_run(state_dir, head, run, stop=True)
    assert reason == "output/: it has 1 files and directories, at most 0 are fetched"
    assert sum("find . -mindepth 1" in command for command in asked) == 1
    assert not (state_dir.runs / run.id / fetch_before_removal.SAVED).exists()


def test_run_that_the_head_cannot_list_is_not_saved(
    tmp_path: Path, stand_in: conftest.StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = os.environ["PATH"]
    find = stand_in("find", "echo \"find: '$1': Stale file handle\" >&2; exit 1")
    monkeypatch.setenv("PATH", f"{find.parent}{os.pathsep}{tools}")
    monkeypatch.setattr(run_record, "SHARED", str(tmp_path / "shared"))
    run, state_dir = builders.run(id="a"), state.for_cluster("demo")
    with ssh_stand_in.session(lambda command: b"" if "systemctl" in command else None) as head:
        reason = fetch_before_removal._save_run(state_dir, head, run, stop=True)
    assert "list the files of run a" in reason
    assert "Stale file handle" in reason
    assert not (state_dir.runs / run.id / fetch_before_removal.SAVED).exists()


@pytest.mark.parametrize("stop", [True, False])
def test_runs_of_another_machine_are_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: bool) -> None:
    """Two machines have a copy of the state directory; run c never started."""
    monkeypatch.setattr(run_record, "SHARED", str(tmp_path))
    for name, files in {"a": ["log"], "b": ["log"], "c": [], "d": ["log", "log.old"]}.items():
        (tmp_path / "runs" / name).mkdir(parents=True)
        for file in files:
            (tmp_path / "runs" / name / file).touch()

    def answer(command: str) -> bytes | None:
        return b"orchestrator-b.service loaded active running x\n" if "list-units" in command else None

    with ssh_stand_in.listening(answer) as (port, host_key):
        state_dir, cluster = ssh_stand_in.deployed(port, host_key)
        (state_dir.runs / "a").mkdir(parents=True)
        values = builders.read_record(builders.deployed("demo")).model_copy(update={"cluster": cluster})
        lost = fetch_before_removal.fetch(state_dir, values, stop=stop, seconds=0.0)
    elsewhere = "it was started with another state directory, and"
    assert lost == {"b": f"{elsewhere} is in progress", "d": f"{elsewhere} may have no other copy"}
    fetch_before_removal.mark_lost(state_dir, lost)
    assert [path.name for path in state_dir.runs.iterdir()] == ["a"]


TRAINED = ("oldest", "middle", "newest")
LABELS = ("label/run/values", run_series.MARK)


def with_trained_runs() -> StateDir:
    """Write the state of a cluster with three training runs, whose series only Prometheus has."""
    state_dir = builders.deployed()
    for number, name in enumerate(TRAINED):
        run = builders.run(id=name, started=NOW - 100.0 + number)
        state.replace(state_dir.runs / name / "run.json", run.model_dump_json())
    return state_dir


def answers_for_runs() -> dict[tuple[str, str], Any]:
    """Return the answers of a Prometheus with the series of the three runs."""
    answers: dict[tuple[str, str], Any] = {}
    for run in TRAINED:
        answers |= prometheus_stand_in.answers_for_run(prometheus_stand_in.training(run), run)
    return {**answers, LABELS: TRAINED}


def saved(state_dir: StateDir) -> set[str]:
    return {run for run in TRAINED if (state_dir.runs / run / "metrics").exists()}


@pytest.mark.parametrize(
    ("changes", "monitored", "lost"),
    [
        ({}, True, False),
        ({"grafana": {"image": "new"}}, True, False),
        ({"image": "new"}, True, True),
        ({}, False, True),
    ],
)
def test_series_are_saved_before_a_deploy_removes_them(
    stand_in: conftest.StandIn, changes: dict[str, Any], monitored: bool, lost: bool
) -> None:
    """The head of a local cluster is replaced, or the cluster loses its monitoring."""
    state_dir, variables = with_trained_runs(), {"local": {"image": "old"}}
    for name, text in sources._files("local").items():
        state.replace(state_dir.terraform / name, text)
    record = builders.read_record(state_dir).model_copy(update={"variables": variables, "applied": variables})
    config = {**record.config, "monitoring": {**record.config["monitoring"], "enabled": monitored}}
    new = record.model_copy(update={"config": config, "variables": {"local": {**variables["local"], **changes}}})
    with prometheus_stand_in.listening(answers_for_runs()) as port:
        tunnel_stand_in.on_path(stand_in, {connection.PROMETHEUS.port: port})
        fetch_before_removal.before_deploy(state_dir, record, new)
    assert saved(state_dir) == (set(TRAINED) if lost else set())


def test_run_whose_series_cannot_be_saved_costs_no_other(
    stand_in: conftest.StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    state_dir, answers = with_trained_runs(), answers_for_runs()
    answers["query_range", f'count({run_series.MARK}{{run="middle"}})'] = prometheus_stand_in.matrix()
    with prometheus_stand_in.listening(answers) as port:
        tunnel_stand_in.on_path(stand_in, {connection.PROMETHEUS.port: port})
        save_series.save(state_dir, builders.read_record(state_dir))
    assert saved(state_dir) == {"oldest", "newest"}
    assert "metrics of run middle could not be saved: Prometheus has no training series" in capsys.readouterr().err


def test_slow_run_is_given_up_and_the_next_one_tried(
    stand_in: conftest.StandIn, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(save_series, "RUN_SERIES_SECONDS", 0.3)
    monkeypatch.setattr(save_series, "ALL_SERIES_SECONDS", 10.0)  # for all three runs
    state_dir = with_trained_runs()
    with prometheus_stand_in.listening(answers_for_runs(), seconds=0.2) as port:
        tunnel_stand_in.on_path(stand_in, {connection.PROMETHEUS.port: port})
        save_series.save(state_dir, builders.read_record(state_dir))
    notes = [line for line in capsys.readouterr().err.splitlines() if "could not be saved" in line]
    assert [line.split()[3] for line in notes] == ["newest", "middle", "oldest"]


def test_runs_that_a_failing_prometheus_keeps_are_named(
    stand_in: conftest.StandIn, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(save_series, "ANSWER_SECONDS", 2.0)
    state_dir, stack = with_trained_runs(), ExitStack()
    last = max(query for path, query in answers_for_runs() if path == "query_range" and "newest" in query)

    class Requests(list[dict[str, str]]):
        def append(self, request: dict[str, str]) -> None:
            if request.get("query") == last:
                stack.close()

    with stack:
        port = stack.enter_context(prometheus_stand_in.listening(answers_for_runs(), Requests()))
        tunnel_stand_in.on_path(stand_in, {connection.PROMETHEUS.port: port})
        started = time.monotonic()
        save_series.save(state_dir, builders.read_record(state_dir))
    assert (saved(state_dir), time.monotonic() - started < 20.0) == ({"newest"}, True)
    assert "metrics of runs middle, oldest could not be saved: Prometheus does not answer" in capsys.readouterr().err
