"""Patches of Horovod's launcher and build (docs/horovod.md)."""

import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from http.client import HTTPConnection
from pathlib import Path
from threading import Lock
from types import SimpleNamespace

import horovod
import pytest
from horovod.runner.common.util.hosts import SlotInfo
from horovod.runner.http.http_server import RendezvousHandler, RendezvousServer
from horovod.runner.util import remote

from tests.trainer import launcher
from tests.trainer.horovod_checks import PREFIX, long_cycle, second_initialization

HOSTS = Path("/etc/hosts")


def run(ranks: int, module: str, *arguments: str, options: Sequence[str] = ()) -> str:
    """Run a program of ``horovod_checks`` on some ranks of this host, and return its output, then its errors."""
    launch = ["--gloo", "-np", str(ranks), "-H", f"127.0.0.1:{ranks}", "--disable-cache", *options]
    program = [sys.executable, "-m", f"tests.trainer.horovod_checks.{module}", *arguments]
    result = subprocess.run([launcher.HOROVODRUN, *launch, *program], capture_output=True, text=True, check=False)
    print(result.stdout, result.stderr)
    return result.stdout + result.stderr


def failures(output: str) -> list[str]:
    """Return the failures of a check on each rank."""
    lines = (line.partition(PREFIX)[2] for line in output.splitlines())
    return [json.loads(line)["failure"] for line in lines if line]


@pytest.fixture
def name_at_another_address() -> Iterator[None]:
    """Resolve this host's name to 127.0.1.1, like Debian and Ubuntu."""
    before = HOSTS.read_text()
    HOSTS.write_text("127.0.1.1 localhost\n")
    yield
    HOSTS.write_text(before)


@pytest.mark.usefixtures("name_at_another_address")
def test_a_process_set_uses_the_interface_of_the_global_set() -> None:
    assert failures(run(3, "links", "interface_of_process_sets")) == [""] * 3


def test_gloo_fills_a_link_in_both_directions_at_once() -> None:
    assert failures(run(2, "links", "both_directions_at_once")) == [""] * 2


@pytest.mark.parametrize("options", [[], ["--fusion-threshold-mb", "64"]])
def test_a_second_initialization_keeps_cycle_time_and_fusion_threshold(
    options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOROVOD_LOG_LEVEL", "trace")
    output = run(2, "second_initialization", options=["--cycle-time-ms", "1", *options])
    assert failures(output) == [""] * 2
    assert output.count(f"Created response of size {4 * sum(second_initialization.GROUP)}") == 2


def test_gloo_names_the_rank_that_has_not_submitted_a_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOROVOD_STALL_CHECK_TIME_SECONDS", "1")
    output = run(2, "late_rank")
    assert failures(output) == [""] * 2
    assert re.search(r"Missing ranks:\s.*1: \[.*allreduce", output, re.IGNORECASE), output


def test_cycle_begins_when_a_tensor_is_added_if_that_is_switched_on(monkeypatch: pytest.MonkeyPatch) -> None:
    options = ["--cycle-time-ms", str(1000 * long_cycle.CYCLE)]
    late = failures(run(3, "long_cycle", options=options))
    assert ["assert seconds" in failure for failure in late] == [True] * 3
    monkeypatch.setenv("HOROVOD_CYCLE_ON_ENQUEUE", "1")
    assert failures(run(3, "long_cycle", options=options)) == [""] * 3


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


def test_launcher_replaces_output_that_is_not_utf_8() -> None:
    program = "import sys; sys.stdout.buffer.write(b'caf\\xe9\\n'); print('after')"
    command = [str(launcher.HOROVODRUN), "--gloo", "-np", "1", "--disable-cache", sys.executable, "-c", program]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (result.returncode, "caf\ufffd\n" in result.stdout, "after\n" in result.stdout) == (0, True, True)


def test_launcher_lets_ssh_check_host_keys() -> None:
    assert "StrictHostKeyChecking" not in remote.SSH_COMMAND_PREFIX


def test_finished_rendezvous_releases_the_other_sets() -> None:
    """The last rank of the set "local" reports to the launcher that it has met the others."""
    finished = defaultdict(list, {"global": ["0"]})
    handler = RendezvousHandler.__new__(RendezvousHandler)
    handler.path = "/local/0"
    handler.send_status_code = lambda code: None
    handler.server = SimpleNamespace(
        finished_list=finished, scope_size={"local": 1, "global": 2}, cache={}, cache_lock=Lock(), verbose=False
    )
    handler.server.finished_list_lock = Lock()
    handler.do_DELETE()
    assert dict(finished) == {"global": ["0"]}


def test_launcher_starts_ranks_without_tensorflow(tmp_path: Path) -> None:
    (tmp_path / "tensorflow.py").write_text("raise SystemExit('TensorFlow was imported')")
    command = [
        str(launcher.HOROVODRUN),
        "--gloo",
        "-np",
        "1",
        "--disable-cache",
        sys.executable,
        "-c",
        "print('started')",
    ]
    result = subprocess.run(
        command, env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False
    )
    assert (result.returncode, "imported" in result.stdout + result.stderr) == (0, False)


def test_library_has_no_debug_information() -> None:
    [library] = (Path(horovod.__file__).parent / "tensorflow").glob("mpi_lib*.so")
    assert b".debug_info" not in library.read_bytes()
