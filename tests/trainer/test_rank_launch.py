"""Launch of two ranks in this container by both launchers of Horovod, through the rank wrapper."""

import sys
from pathlib import Path

import pytest

from orchestrator.trainer.supervision.rank_record import read
from tests.trainer import launcher

WORDS = ["two words", "$HOME", "${PATH}", "it's", 'a "b"', "Grüße", "*", "", "a;b|c&d", "`id`", "\\", "--verbose", "%h"]
# A single write, because Open MPI's launcher mixes pieces of lines.
SAY = "import os, sys; sys.stdout.write(f'{os.environ[\"ORCHESTRATOR_RANK\"][-1]} {sys.argv[1:]!a}\\n')"
# Rank 1 fails once rank 0 has started.
FAIL = """
import os, pathlib, sys, time
ready = pathlib.Path(sys.argv[1])
if os.environ["ORCHESTRATOR_RANK"].endswith(":0"):
    ready.touch()
    time.sleep(60)
while not ready.exists():
    time.sleep(0.02)
os._exit(7)
"""
# Two ranks whose weights differ in one bit.
DISAGREE = """
import horovod.tensorflow as hvd, keras, numpy as np
from orchestrator.trainer import averages_over_ranks
hvd.init()
model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, kernel_initializer="ones")])
assert len(set(hvd.allgather_object(averages_over_ranks.digest(model)))) == 1
if hvd.rank() == 1:
    model.set_weights([np.nextafter(np.ones((2, 1), np.float32), np.float32(2)), np.zeros(1)])
averages_over_ranks.digest(model)
"""


@pytest.mark.parametrize("controller", ["gloo", "mpi"])
def test_program_arguments_reach_every_rank_unchanged(tmp_path: Path, controller: str) -> None:
    output = launcher.launch(tmp_path / "run", [sys.executable, "-c", SAY, *WORDS], controller=controller)
    assert output.returncode == 0, output.stdout
    for rank in range(2):
        assert f"<stdout>:{rank} {WORDS!a}\n" in output.stdout
        record = read(tmp_path / "run" / "ranks" / f"{rank}.json")
        assert (record.rank, record.exit_code, record.terminated) == (rank, 0, False)


@pytest.mark.parametrize("controller", ["gloo", "mpi"])
def test_failed_rank_differs_from_the_rank_ended_by_the_launcher(tmp_path: Path, controller: str) -> None:
    output = launcher.launch(
        tmp_path / "run", [sys.executable, "-c", FAIL, str(tmp_path / "ready")], controller=controller
    )
    assert output.returncode != 0
    terminated, failed = (read(tmp_path / "run" / "ranks" / f"{rank}.json") for rank in range(2))
    assert (terminated.exit_code, terminated.terminated) == (143, True)
    assert (failed.exit_code, failed.terminated) == (7, False)


def test_weights_that_differ_by_one_bit_raise(tmp_path: Path) -> None:
    output = launcher.launch(tmp_path / "run", [sys.executable, "-c", DISAGREE])
    assert output.returncode != 0
    assert "RuntimeError: ranks disagree on the weights: {0: '" in output.stdout
