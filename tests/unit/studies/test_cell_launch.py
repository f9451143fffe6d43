"""Launches of cells: the load before one, with a stand-in for the nodes, and those that cannot start."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator import state
from orchestrator.config import Config
from orchestrator.errors import ConfigError, ContractError, StateError
from orchestrator.runs import jobs
from orchestrator.state import Record
from orchestrator.studies import journal, resumable_study
from orchestrator.studies.cell_launch import Launcher
from orchestrator.studies.journal import Journal
from orchestrator.studies.launch_schedule import Schedule
from tests import builders
from tests.stand_ins import ssh_stand_in
from tests.unit.studies.studies import cells, study

STAT = "cpu  {} 0 0 {} 0 0 0 0 0 0\n"
READINGS = f"{STAT.format(10, 100)}\n{STAT.format(40, 170)}"


@contextmanager
def launcher(directory: Path, answer: str = "") -> Iterator[Launcher]:
    """Yield the launches of a study on a cloud's node that answers so."""
    with ssh_stand_in.listening(lambda _: answer.encode()) as (port, host_key):
        state_dir, cluster = ssh_stand_in.deployed(port, host_key)
        config = Config(name="demo", nodes=1)
        values = {**config.model_dump(mode="json"), "provider": "gcp"}
        state.write(state_dir, Record(id="1a2b3c4d", config=values, cluster=cluster))
        yield Launcher(config, study(), Journal(directory), lambda _: (state_dir, cluster, ""), deploys=False)


def load(directory: Path, answer: str) -> float:
    with launcher(directory, answer) as launches:
        return launches._busy(list(launches.cluster.nodes))


def test_load_is_read_after_the_lines_of_a_login_shell(tmp_path: Path) -> None:
    assert load(tmp_path, f"Welcome\n\n{READINGS}") == 0.3


def test_node_that_sends_no_load_is_named(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match="demo-head sends not two readings of /proc/stat: 'Welcome'"):
        load(tmp_path, "Welcome")


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
        launches = Launcher(Config(), study(), current, lambda _: (state.for_cluster("default"), cluster, "0"), False)
        launches.start(planned, current.begin)
    [launch] = journal.read(tmp_path / "tiny-study")
    assert (launch.problem, launch.seconds < 60.0) == ("no such directory", True)


def test_run_that_is_no_launch_names_the_command_that_lists_it(tmp_path: Path) -> None:
    with launcher(tmp_path) as launches, pytest.raises(StateError) as caught:
        launches._finish(builders.run(id="a"))
    assert "`orchestrator runs --cluster demo`" in caught.value.hint
