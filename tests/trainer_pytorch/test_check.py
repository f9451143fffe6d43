"""The program of `check` on two ranks, with PyTorch."""

import sys
from pathlib import Path

import pytest

from orchestrator.schema import CheckResult
from tests.trainer import launcher


@pytest.mark.parametrize("controller", ["gloo", "mpi"])
def test_check_proves_the_ranks_and_measures(tmp_path: Path, controller: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run"
    monkeypatch.setenv("ORCHESTRATOR_RUN_DIR", str(run))
    output = launcher.launch(run, [sys.executable, "-m", "orchestrator.trainer.check"], controller=controller)
    assert output.returncode == 0, output.stdout
    result = CheckResult.model_validate_json((run / "check.json").read_text())
    assert [rank.allreduce_sum for rank in result.ranks] == [3.0, 3.0]
    assert result.step_seconds > 0
    assert result.sizes
    assert "loading PyTorch" in output.stdout
