"""Patches of Horovod's launcher and build (docs/horovod.md)."""

import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from threading import Lock
from types import SimpleNamespace

import horovod
from horovod.runner.http.http_server import RendezvousHandler
from horovod.runner.util import remote

from tests.trainer import launcher


def test_the_launcher_lets_ssh_check_host_keys() -> None:
    assert "StrictHostKeyChecking" not in remote.SSH_COMMAND_PREFIX


def test_a_set_of_ranks_that_has_met_leaves_the_other_sets() -> None:
    """The last rank of the set "local" tells the launcher that it has met the others."""
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


def test_the_launcher_starts_ranks_without_tensorflow(tmp_path: Path) -> None:
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
    said = subprocess.run(
        command, env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False
    )
    assert (said.returncode, "imported" in said.stdout + said.stderr) == (0, False)


def test_the_library_has_no_debug_information() -> None:
    [library] = (Path(horovod.__file__).parent / "tensorflow").glob("mpi_lib*.so")
    assert b".debug_info" not in library.read_bytes()
