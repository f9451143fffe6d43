"""Launch by agents, one per host: two addresses of this container act as two hosts."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from orchestrator.launch_layout import Layout, Process
from orchestrator.trainer.supervision.node_launcher import LOST_AGENT
from orchestrator.trainer.supervision.rank_record import read
from tests import waiting

HOSTS = {"127.0.0.1": 2, "127.0.0.2": 1}
RANKS = ["127.0.0.1", "127.0.0.1", "127.0.0.2"]
REDUCE = """
import horovod.tensorflow as hvd, tensorflow as tf
hvd.init()
total = hvd.allreduce(tf.constant(hvd.rank() + 1.0), op=hvd.Sum)
local, cross = f"{hvd.local_rank()}/{hvd.local_size()}", f"{hvd.cross_rank()}/{hvd.cross_size()}"
print(f"{hvd.rank()}/{hvd.size()} {local} {cross} {float(total)}")
"""
WAIT = """
import os, signal, sys, time
if os.environ["RANK"] == sys.argv[1]:
    time.sleep(0.5)
    exec(sys.argv[2])
time.sleep(60)
"""
Launch = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    """Start a program on three ranks of two hosts; ``roles`` as in a layout."""

    def start(code: str, *arguments: str, roles: Sequence[str] = ()) -> "subprocess.Popen[str]":
        wrapper = [sys.executable, "-m", "orchestrator.trainer.supervision.rank_wrapper", str(tmp_path)]
        processes: dict[str, list[Process]] = {host: [] for host in HOSTS}
        for rank, host in enumerate(RANKS):
            processes[host].append(Process(wrapper, rank))
        layout = Layout(HOSTS, RANKS, "lo", 1, 60.0, processes, roles)
        (tmp_path / "ranks").mkdir()
        (tmp_path / "launch.json").write_text(layout.text())
        (tmp_path / "program.json").write_text(json.dumps([sys.executable, "-c", code, *arguments]))
        added = {
            "ORCHESTRATOR_RUN": tmp_path.name,
            "ORCHESTRATOR_PORT": "21500",
            "ORCHESTRATOR_RENDEZVOUS_HOST": "127.0.0.1",
        }
        command = [sys.executable, "-m", "orchestrator.trainer.supervision.node_launcher", str(tmp_path)]
        return subprocess.Popen(
            command, env={**os.environ, **added}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    return start


def exit_code_and_lines(launcher: "subprocess.Popen[str]") -> tuple[int, list[str]]:
    output = launcher.communicate(timeout=60)[0]
    return launcher.returncode, sorted(line for line in output.splitlines() if line.startswith("["))


def test_lines_are_tagged_with_their_rank(launch: Launch) -> None:
    code, lines = exit_code_and_lines(launch("import os; print('I am', os.environ['RANK'], os.environ['LOCAL_RANK'])"))
    assert (code, lines) == (0, [f"[{rank}]<stdout>:I am {rank} {rank % 2}" for rank in range(3)])


def test_ranks_of_horovod_meet_without_horovodrun(launch: Launch) -> None:
    code, lines = exit_code_and_lines(launch(REDUCE))
    printed = [line.partition("<stdout>:")[2] for line in lines if "<stdout>" in line]
    assert (code, printed) == (0, ["0/3 0/2 0/2 6.0", "1/3 1/2 0/1 6.0", "2/3 0/1 1/2 6.0"])


@pytest.mark.parametrize(("rank", "code"), [("0", 3), ("2", 3)])
def test_a_rank_that_fails_ends_the_others(launch: Launch, tmp_path: Path, rank: str, code: int) -> None:
    assert exit_code_and_lines(launch(WAIT, rank, "sys.exit(3)"))[0] == code
    records = {number: read(tmp_path / "ranks" / f"{number}.json") for number in range(3)}
    assert records.pop(int(rank)).exit_code == code
    assert {record.terminated for record in records.values()} == {True}


def test_a_rank_that_is_killed_is_recorded(launch: Launch, tmp_path: Path) -> None:
    assert exit_code_and_lines(launch(WAIT, "1", "os.kill(os.getpid(), signal.SIGKILL)"))[0] == 137
    assert read(tmp_path / "ranks" / "1.json").exit_code == 137


def test_a_wrapper_that_is_killed_is_recorded(launch: Launch, tmp_path: Path) -> None:
    assert exit_code_and_lines(launch(WAIT, "2", "os.kill(os.getppid(), signal.SIGKILL); time.sleep(9)"))[0] == 137
    assert read(tmp_path / "ranks" / "2.json").exit_code == 137


def test_end_of_the_leader_ends_its_servers(launch: Launch, tmp_path: Path) -> None:
    began = time.monotonic()
    code, _ = exit_code_and_lines(launch(WAIT, "0", "sys.exit(0)", roles=["chief", "worker", "ps"]))
    assert code == 0
    assert time.monotonic() - began < 30
    assert {read(tmp_path / "ranks" / f"{rank}.json").terminated for rank in (1, 2)} == {True}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_ranks_do_not_outlive_their_launcher(launch: Launch, tmp_path: Path, number: signal.Signals) -> None:
    launcher = launch(WAIT, "none", "")
    paths = [tmp_path / "ranks" / f"{rank}.json" for rank in range(3)]
    assert waiting.until(lambda: all(path.exists() for path in paths))
    launcher.send_signal(number)
    launcher.communicate(timeout=30)
    assert waiting.until(lambda: all(read(path).terminated for path in paths))
    assert waiting.until(lambda: not any(Path(f"/proc/{read(path).pid}").exists() for path in paths))


def test_ranks_do_not_outlive_their_agent(launch: Launch, tmp_path: Path) -> None:
    agent = "open(f'/proc/{os.getppid()}/stat').read().rpartition(')')[2].split()[1]"
    launcher = launch(WAIT, "2", f"os.kill(int({agent}), signal.SIGKILL); time.sleep(60)")
    output = launcher.communicate(timeout=60)[0]
    assert (launcher.returncode, LOST_AGENT.findall(output)) == (137, ["127.0.0.2"])
    assert {read(tmp_path / "ranks" / f"{rank}.json").terminated for rank in range(3)} == {True}


def test_a_program_that_does_not_exist_is_named(launch: Launch, tmp_path: Path) -> None:
    launcher = launch("")
    (tmp_path / "program.json").write_text(json.dumps(["no-such-program"]))
    output = launcher.communicate(timeout=60)[0]
    assert (launcher.returncode, "no-such-program: no such command on " in output) == (127, True)
