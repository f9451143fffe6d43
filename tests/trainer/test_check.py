"""The program of `check` on two ranks, one of them as slow as an emulated node."""

import sys
from pathlib import Path

import pytest

from orchestrator.schema import CheckResult
from orchestrator.trainer.check import message_and_step_sizes
from tests.trainer import launcher

# Rank 1 computes for 2 ms of every 100 ms once its libraries are loaded, as under a CPU quota of 0.02: a helper
# process stops and continues it.
THROTTLE = """
import os, signal, sys, time
pid = int(sys.argv[1])
while os.getppid() == pid:
    os.kill(pid, signal.SIGSTOP)
    time.sleep(0.098)
    os.kill(pid, signal.SIGCONT)
    time.sleep(0.002)
"""
CHECK = """
import os, runpy, subprocess, sys, time
import horovod.tensorflow, tensorflow
os.environ["ORCHESTRATOR_RUN_DIR"], throttle, slow = sys.argv[1:]
del sys.argv[1:]
if os.environ["ORCHESTRATOR_RANK"].endswith(slow):
    subprocess.Popen([sys.executable, "-c", throttle, str(os.getpid())])
runpy.run_module("orchestrator.trainer.check", run_name="__main__")
"""


def check(directory: Path, slow: str) -> tuple[CheckResult, str]:
    output = launcher.launch(directory, [sys.executable, "-c", CHECK, str(directory), THROTTLE, slow])
    assert output.returncode == 0, output.stdout
    return CheckResult.model_validate_json((directory / "check.json").read_text()), output.stdout


def test_check_prints_what_it_measures(tmp_path: Path) -> None:
    result, output = check(tmp_path / "run", "none")
    assert [rank.allreduce_sum for rank in result.ranks] == [3.0, 3.0]
    assert result.step_seconds > 0
    assert result.sizes
    for words in ("loading TensorFlow", "measuring messages of up to 64 MiB", "measuring a step", "a step of "):
        assert output.count(f"[0]<stdout>:{words}") == 1


def test_slow_rank_measures_a_smaller_step(tmp_path: Path) -> None:
    """The whole step takes this rank more than 10 s, and runs at least twice."""
    result, output = check(tmp_path / "run", ":1")
    assert result.step_work < 1
    assert result.step_seconds > 0
    assert result.step_seconds <= message_and_step_sizes.SECONDS
    assert result.whole_step_seconds == pytest.approx(result.step_seconds / result.step_work)
    assert "of the whole: more would take too long" in output
