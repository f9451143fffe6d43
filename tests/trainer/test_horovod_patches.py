"""Patches of Horovod's launcher and build (docs/horovod.md)."""

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from types import SimpleNamespace

import horovod
import pytest
from horovod.runner.http.http_server import RendezvousHandler
from horovod.runner.util import remote

from tests.trainer import launcher
from tests.trainer.horovod_checks import PREFIX

HOSTS = Path("/etc/hosts")


def failures(check: str, ranks: int) -> list[str]:
    """Return the failures of a check of links on each rank."""
    options = ["--gloo", "-np", str(ranks), "-H", f"127.0.0.1:{ranks}", "--disable-cache"]
    program = [sys.executable, "-m", "tests.trainer.horovod_checks.links", check]
    result = subprocess.run([launcher.HOROVODRUN, *options, *program], capture_output=True, text=True, check=False)
    print(result.stdout, result.stderr)
    lines = (line.partition(PREFIX)[2] for line in result.stdout.splitlines())
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
    assert failures("interface_of_process_sets", 3) == [""] * 3


def test_gloo_fills_a_link_in_both_directions_at_once() -> None:
    assert failures("both_directions_at_once", 2) == [""] * 2


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
