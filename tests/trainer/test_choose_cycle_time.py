"""Horovod's cycle time, measured with real ranks."""

import json
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest
from horovod.runner.common.util.hosts import SlotInfo
from horovod.runner.http.http_server import RendezvousServer

from orchestrator.trainer.autotune import choose_cycle_time
from tests.trainer import launcher


def test_cycle_time_is_measured_once_if_the_launch_asks_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORCHESTRATOR_MEASURE_CYCLE", "1")  # as orchestrator/runs/run_record.py does
    measured = trained_cycle_time(tmp_path / "first")
    assert choose_cycle_time.SHORTEST <= measured <= choose_cycle_time.LONGEST
    assert (measured * 2).is_integer()
    (path,) = tmp_path.glob(".orchestrator-cycle-time-*")
    stored = json.loads(path.read_text())
    assert stored["value"] == measured
    path.write_text(json.dumps({**stored, "value": measured + 0.25}))
    assert trained_cycle_time(tmp_path / "second") == measured + 0.25


def trained_cycle_time(directory: Path) -> float:
    """Train one step on two ranks; return their cycle time."""
    output = launcher.train(directory, ranks=2, options=["--cycle-time-ms", "5"], epochs=1, steps=1)
    assert output.returncode == 0, output.stdout
    communication = launcher.results(directory).communication
    assert communication
    return communication.cycle_time


@pytest.mark.parametrize(
    ("work", "share", "milliseconds"),
    [(100e-6, 0.02, 5.0), (100e-6, 0.1, 1.0), (46e-6, 0.02, 2.5), (1e-3, 0.02, 25.0), (0.0, 0.02, 1.0)],
)
def test_cycle_takes_at_most_its_share_of_a_core(work: float, share: float, milliseconds: float) -> None:
    assert choose_cycle_time.cycle_for(work, share) == milliseconds


@pytest.fixture
def meeting() -> Iterator[HTTPConnection]:
    """Start the rendezvous server of two ranks on one host, as horovodrun does."""
    server = RendezvousServer()
    connection = HTTPConnection("127.0.0.1", server.start())
    server.init([SlotInfo("a", rank, rank, 0, 2, 2, 1) for rank in range(2)])
    yield connection
    connection.close()
    server.stop()


def test_rendezvous_forgets_addresses_once_all_ranks_have_left(meeting: HTTPConnection) -> None:
    def status(method: str, path: str, body: str | None = None) -> int:
        meeting.request(method, path, body)
        answer = meeting.getresponse()
        answer.read()
        return answer.status

    assert status("PUT", "/local_a/0", "an address of Horovod's first start") == 200
    assert status("DELETE", "/local_a/0") == 200
    assert status("DELETE", "/cross_0/0") == 200  # rank 0 is alone there, and leaves before rank 1 leaves local_a
    assert status("GET", "/local_a/0") == 200
    assert status("DELETE", "/local_a/1") == 200
    assert status("GET", "/local_a/0") == 404
