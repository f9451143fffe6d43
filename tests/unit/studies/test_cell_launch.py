"""Launches that cannot start."""

import time
from pathlib import Path

import pytest

from orchestrator import state
from orchestrator.config import Config
from orchestrator.errors import ConfigError
from orchestrator.runs import jobs
from orchestrator.studies import journal, resumable_study
from orchestrator.studies.cell_launch import Launcher
from orchestrator.studies.launch_schedule import Schedule
from tests import builders
from tests.unit.studies.studies import cells, study


@pytest.mark.parametrize("jump", [-3600.0, 1e9])
def test_failed_start_is_readable_if_the_clock_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump: float
) -> None:
    now = time.time()

    def refuse(*_: object, **__: object) -> None:
        monkeypatch.setattr(time, "time", lambda: now + jump)
        raise ConfigError(["no such directory"])

    monkeypatch.setattr(jobs, "train", refuse)
    builders.deployed()
    resumable_study.create(tmp_path / "tiny-study", study())
    planned = Schedule(study(), cells(study()), []).next()
    assert planned
    with journal.opened(tmp_path / "tiny-study") as current:
        cluster = builders.cluster()
        launcher = Launcher(Config(), study(), current, lambda _: (state.for_cluster("default"), cluster, "0"), False)
        launcher.start(planned, current.begin)
    [launch] = journal.read(tmp_path / "tiny-study")
    assert (launch.problem, launch.seconds < 60.0) == ("no such directory", True)
