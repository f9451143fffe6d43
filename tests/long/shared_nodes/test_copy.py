"""Copy 2 GB to a node and back while sshd is killed three times: complete, and at most one piece is sent twice."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.command import Cli, wait_for
from tests.long.shared_nodes import CLUSTER, HEAD

SIZE, PIECE, CUTS = 2 << 30, 4 << 20, 3
# The sshd of connections that run a command, in both directions; never the listener.
SESSIONS = "ps -eo pid=,args= | grep 'sshd: orchestrator' | grep -v 'priv\\|grep'"


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "data"
    with path.open("wb") as file:
        for _ in range(SIZE >> 24):
            file.write(os.urandom(1 << 24))
    yield path
    path.unlink()


def digest(path: Path) -> str:
    return subprocess.run(["sha256sum", str(path)], capture_output=True, text=True, check=True).stdout.split()[0]


def on_head(script: str) -> str:
    words = ["docker", "exec", HEAD, "sh", "-c", script]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout


def kill_sshd_three_times(size: Callable[[], int]) -> None:
    """Kill the sshd of the copy three times, each time after another fifth of the file."""
    for number in range(1, CUTS + 1):
        wait_for(f"cut {number}", lambda least=number: size() > least * SIZE // 5, 300)  # type: ignore[misc]
        pids = [line.split()[0] for line in on_head(SESSIONS).splitlines()]
        assert pids
        on_head(f"kill -9 {' '.join(pids)}")


def bytes_sent(process: "subprocess.Popen[str]") -> int:
    """Return the number of bytes that the command reports as sent."""
    output = process.communicate(timeout=600)[0]
    assert process.returncode == 0, output
    print(output)
    return int(json.loads(output[output.index("{\n") :])["sent"])


def test_two_gigabytes_survive_three_cuts_in_each_direction(cli: Cli, data: Path, tmp_path: Path) -> None:
    process = cli.start("cp", str(data), "head:/shared/copied", "--json", cluster=CLUSTER)
    kill_sshd_three_times(lambda: int(on_head("stat -c %s /shared/.copied.*.part 2>&-").strip() or 0))
    assert SIZE <= bytes_sent(process) <= SIZE + 4 * PIECE
    assert on_head("sha256sum < /shared/copied").split()[0] == digest(data)
    back = tmp_path / "back"
    process = cli.start("cp", "head:/shared/copied", str(back), "--json", cluster=CLUSTER)
    kill_sshd_three_times(lambda: sum(path.stat().st_size for path in tmp_path.glob(".back.*.part")))
    assert SIZE <= bytes_sent(process) <= SIZE + 4 * PIECE
    assert digest(back) == digest(data)
    on_head("rm /shared/copied")
    back.unlink()
