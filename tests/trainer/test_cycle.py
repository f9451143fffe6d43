"""Horovod's cycle, chosen by measuring the nodes: real ranks, real Horovod."""

from pathlib import Path

import pytest

from orchestrator.trainer import cycle
from tests.trainer import launcher


def test_ranks_find_the_cycle_that_suits_them_where_the_launch_says_that_nobody_chose_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORCHESTRATOR_MEASURE_CYCLE", "1")  # as orchestrator/launch.py does
    said = launcher.train(tmp_path / "run", ranks=2, options=["--cycle-time-ms", "5"], epochs=1, steps=1)
    assert said.returncode == 0, said.stdout
    used = launcher.results(tmp_path / "run").communication
    assert used
    assert cycle.SHORTEST <= used.cycle_time <= cycle.LONGEST
    assert (used.cycle_time * 2).is_integer()


@pytest.mark.parametrize(
    ("work", "share", "milliseconds"),
    [(100e-6, 0.02, 5.0), (100e-6, 0.1, 1.0), (46e-6, 0.02, 2.5), (1e-3, 0.02, 25.0), (0.0, 0.02, 1.0)],
)
def test_a_cycle_takes_no_more_than_its_share_of_a_core(work: float, share: float, milliseconds: float) -> None:
    assert cycle.suits(work, share) == milliseconds
