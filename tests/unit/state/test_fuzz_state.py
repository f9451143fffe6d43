"""Any truncation of, and any value in, own files: an error with the file's name, and no run hides another."""

import contextlib
import io
import json
from pathlib import Path

import paramiko
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator import providers, ssh, state, terraform
from orchestrator.cli import result_tables
from orchestrator.errors import StateError
from orchestrator.monitoring import run_series
from orchestrator.providers.hosts import selection
from orchestrator.providers.hosts.host_set import HostSet, Machine
from orchestrator.providers.hosts.login import Login
from orchestrator.runs import store
from orchestrator.runs.control import RunState
from orchestrator.schema import RunStatus
from orchestrator.services import password_file
from orchestrator.services.jupyter import Secret
from orchestrator.ssh import key_pair
from orchestrator.state import StateDir
from tests import builders
from tests.stand_ins import fuzz

RUN = builders.run(id="b").model_dump_json().encode()
STATUS = RunStatus(state="finished", exit_code=0, started=1.0, ended=2.0).model_dump_json().encode()
RESULTS = builders.results([builders.epoch(1)]).model_dump_json().encode()
TFSTATE = json.dumps(
    {
        "version": 4,
        "serial": 3,
        "lineage": "x",
        "outputs": {},
        "resources": [
            {
                "mode": "managed",
                "type": "terraform_data",
                "name": "node",
                "instances": [{"index_key": "demo-head", "attributes": {"input": {"value": {"name": "demo-head"}}}}],
            }
        ],
    }
).encode()


@pytest.fixture
def state_dir() -> StateDir:
    return builders.deployed()


RECORD = (
    state.Record(id="1a2b3c4d", config={"name": "default", "provider": "local"}, cluster=builders.cluster())
    .model_dump_json()
    .encode()
)


@given(content=fuzz.damaged_json(RECORD))
def test_any_state_is_read_or_refused_with_its_name(state_dir: StateDir, content: bytes) -> None:
    state_dir.record.write_bytes(content)
    with fuzz.refused(StateError, str(state_dir.record)):
        record = state.read(state_dir)
        assert record is not None
        assert providers.of(record)


@given(content=fuzz.damaged_json(RUN))
def test_any_record_of_a_run_hides_no_other(state_dir: StateDir, content: bytes) -> None:
    state.replace(state_dir.runs / "a" / "run.json", builders.run(id="a").model_dump_json())
    (state_dir.runs / "b").mkdir(parents=True, exist_ok=True)
    (state_dir.runs / "b" / "run.json").write_bytes(content)
    runs = store.list_runs(state_dir)
    assert "a" in [run.id for run in runs]
    assert len(runs) + len(store.damaged(state_dir)) == 2
    with contextlib.redirect_stdout(io.StringIO()):
        result_tables.runs_table([RunState(run, "finished", None) for run in runs])


@given(content=fuzz.damaged_json(STATUS))
def test_any_status_of_a_run_is_read_or_none(state_dir: StateDir, content: bytes) -> None:
    (state_dir.runs / "a").mkdir(parents=True, exist_ok=True)
    (state_dir.runs / "a" / "status.json").write_bytes(content)
    status = store.status(state_dir, builders.run(id="a"))
    assert status is None or isinstance(status, RunStatus)


@given(content=fuzz.damaged_json(RESULTS))
def test_any_results_are_shown_or_refused_with_their_name(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "results.json").write_bytes(content)
    with contextlib.redirect_stdout(io.StringIO()):
        for as_json in (False, True):
            with fuzz.refused(StateError, str(tmp_path / "results.json")):
                result_tables.run(RunState(builders.run(), "finished", None), tmp_path, as_json)


@given(content=fuzz.damaged_json(TFSTATE))
def test_any_state_of_terraform_is_read_as_far_as_usable(state_dir: StateDir, content: bytes) -> None:
    root = state_dir.terraform / "local"
    root.mkdir(parents=True, exist_ok=True)
    (root / "terraform.tfstate").write_bytes(content)
    terraform.recorded(state_dir, "local")


@given(content=fuzz.damaged(b"10.0.0.1 ssh-ed25519 " + b"A" * 68 + b"\n[10.0.0.1]:22 ssh-rsa AAAA\n"))
def test_any_known_hosts_are_loaded_or_unreachable(state_dir: StateDir, content: bytes) -> None:
    state.replace(state_dir.known_hosts, "")
    state_dir.known_hosts.write_bytes(content)
    with fuzz.refused(ssh.Unreachable, str(state_dir.known_hosts)):
        ssh._load_host_keys(paramiko.SSHClient(), state_dir, builders.cluster())


@given(data=st.data())
def test_any_key_is_read_or_refused_with_its_name(state_dir: StateDir, data: st.DataObject) -> None:
    state_dir.key.unlink(missing_ok=True)
    key_pair.public_half(state_dir.key)
    state_dir.key.write_bytes(data.draw(fuzz.damaged(state_dir.key.read_bytes())))
    with fuzz.refused(StateError, str(state_dir.key)):
        key_pair.public_half(state_dir.key)
    with fuzz.refused(ssh.Unreachable, str(state_dir.key)):
        ssh._key(state_dir)


@given(content=fuzz.damaged_json(Secret.of("hunter22").model_dump_json().encode()))
def test_any_password_file_is_read_or_refused_unseen(state_dir: StateDir, content: bytes) -> None:
    state_dir.notebook.write_bytes(content)
    with fuzz.refused(StateError, str(state_dir.notebook), never="hunter22"):
        assert isinstance(password_file.read(state_dir.notebook, Secret), Secret)


@given(content=fuzz.damaged(b"time,rank,value\n1.0,0,2.5\n2.0,0,nan\n"))
def test_any_series_are_read_or_refused_with_their_name(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "loss.csv").write_bytes(content)
    with fuzz.refused(StateError, str(tmp_path / "loss.csv")):
        run_series.read(tmp_path)


LOGIN = Login(address="10.0.0.10", user="me", port=22, identity="/key", jump="gate")
HOSTS = HostSet(
    machines=[Machine(name="demo-head", role="head", login=LOGIN, id="x")],
    leaving=[Machine(name="demo-worker-0", role="worker", login=LOGIN)],
    storage="mounted",
    trainer="installed",
)
ON_HOSTS = state.Record(
    id="1a2b3c4d",
    config={"name": "default", "provider": "hosts"},
    variables={"hosts": HOSTS.model_dump()},
    cluster=builders.cluster(),
)


@given(content=fuzz.damaged_json(ON_HOSTS.model_dump_json().encode()))
def test_any_hosts_of_a_state_are_arguments_of_ssh_or_refused(state_dir: StateDir, content: bytes) -> None:
    state_dir.record.write_bytes(content)
    with fuzz.refused(StateError, str(state_dir.record)):
        record = state.read(state_dir)
        assert record is not None
        host_set = selection.last_hosts(record)
        assert not any(
            "\0" in word for machine in (host_set.everyone if host_set else []) for word in machine.login.words
        )
