"""2 GB to a node and back over connections whose sshd is killed three times: whole, nothing sent twice but a piece."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.command import Cli, wait_for

SIZE, PIECE, CUTS = 2 << 30, 4 << 20, 3
# What the head keeps of both directions, and the sshd of a connection that has a command: never the listener.
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


def on_head(head: str, script: str) -> str:
    words = ["docker", "exec", head, "sh", "-c", script]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout


def cut(head: str, size: Callable[[], int]) -> None:
    """Kill the sshd of the copy three times, each time after another fifth of the file."""
    for number in range(1, CUTS + 1):
        wait_for(f"cut {number}", lambda least=number: size() > least * SIZE // 5, 300)  # type: ignore[misc]
        pids = [line.split()[0] for line in on_head(head, SESSIONS).splitlines()]
        assert pids
        on_head(head, f"kill -9 {' '.join(pids)}")


def copied(process: "subprocess.Popen[str]") -> int:
    """The bytes that the command says it sent."""
    said = process.communicate(timeout=600)[0]
    assert process.returncode == 0, said
    print(said)
    return int(json.loads(said[said.index("{\n") :])["sent"])


def test_two_gigabytes_survive_three_cuts_in_each_direction(cli: Cli, data: Path, tmp_path: Path) -> None:
    head = str(next(name for name, node in cli.json("status")["cluster"]["nodes"].items() if node["role"] == "head"))
    process = cli.start("cp", str(data), "head:/shared/copied", "--json")
    cut(head, lambda: int(on_head(head, "stat -c %s /shared/.copied.*.part 2>&-").strip() or 0))
    assert SIZE <= copied(process) <= SIZE + 4 * PIECE
    assert on_head(head, "sha256sum < /shared/copied").split()[0] == digest(data)
    back = tmp_path / "back"
    process = cli.start("cp", "head:/shared/copied", str(back), "--json")
    cut(head, lambda: sum(path.stat().st_size for path in tmp_path.glob(".back.*.part")))
    assert SIZE <= copied(process) <= SIZE + 4 * PIECE
    assert digest(back) == digest(data)
    on_head(head, "rm /shared/copied")
    back.unlink()
