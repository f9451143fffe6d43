"""Units of runs on the head: units with processes are active runs."""

from pathlib import Path

import pytest

from orchestrator.errors import CommandFailed
from orchestrator.runs import control
from orchestrator.runs.control import systemd_units
from tests import builders
from tests.stand_ins import ssh_stand_in
from tests.unit.conftest import StandIn

KILLED = b"orchestrator-queue-1.service loaded deactivating stop-sigkill python\n"


def active(listing: bytes, group: bytes = b"") -> list[str]:
    """Return the active runs of a head whose systemd lists these units, the killed one with this control group."""
    answers = {"list-units": listing, "ControlGroup": group + b"\n"}
    with ssh_stand_in.session(lambda line: next((answers[word] for word in answers if word in line), None)) as head:
        return control.active(head)


def test_units_that_run_stop_or_start_are_active() -> None:
    states = (b"active running", b"deactivating stop-sigterm", b"deactivating stop-post", b"activating start")
    lines = (b"orchestrator-run-%d.service loaded %s python -m x\n" % each for each in enumerate(states))
    assert active(b"".join(lines)) == ["run-0", "run-1", "run-2", "run-3"]


@pytest.mark.parametrize("hierarchy", ["", "systemd"])
@pytest.mark.parametrize(("processes", "runs"), [("", []), ("67\n70\n", ["queue-1"])])
def test_killed_unit_is_active_until_its_last_process_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hierarchy: str, processes: str, runs: list[str]
) -> None:
    monkeypatch.setattr(systemd_units, "CGROUPS", (str(tmp_path), str(tmp_path / "systemd")))
    (tmp_path / hierarchy / "queue").mkdir(parents=True)
    (tmp_path / hierarchy / "queue" / "cgroup.procs").write_text(processes)
    assert active(KILLED, b"/queue") == runs


def test_killed_unit_without_a_control_group_is_not_active() -> None:
    assert active(KILLED) == []


def test_killed_unit_whose_processes_cannot_be_read_is_active() -> None:
    assert active(KILLED, b"/nowhere") == ["queue-1"]


@pytest.fixture
def started(tmp_path: Path, stand_in: StandIn) -> Path:
    """Return the file in which a head notes the names of the units that it starts; it lists one unit, of run before."""
    stand_in("sudo", 'exec "$@"')
    stand_in("flock", 'shift; exec "$@"')
    stand_in("sh", 'exec /bin/sh "$@"')
    stand_in("systemctl", "echo orchestrator-before.service loaded active running python")
    stand_in("systemd-run", f'echo "$4" >> {tmp_path}/started')
    (tmp_path / "started").touch()
    return tmp_path / "started"


@pytest.mark.parametrize(
    ("known", "other", "units"),
    [
        (["orchestrator-before.service"], None, "orchestrator-b\n"),
        (["orchestrator-a.service", "orchestrator-before.service"], None, "orchestrator-b\n"),
        (["orchestrator-before.service2"], "before", ""),
        ([], "before", ""),
    ],
)
def test_unit_starts_only_if_no_other_machine_has_started_one(
    started: Path, known: list[str], other: str | None, units: str
) -> None:
    with ssh_stand_in.session() as head:
        assert systemd_units.start(head, builders.cluster(), builders.run(id="b"), known) == other
    assert started.read_text() == units


def test_unit_starts_on_a_head_without_units(started: Path, stand_in: StandIn) -> None:
    stand_in("systemctl", "exit 0")
    with ssh_stand_in.session() as head:
        assert systemd_units.start(head, builders.cluster(), builders.run(id="b"), []) is None
    assert started.read_text() == "orchestrator-b\n"


def test_unit_that_cannot_be_looked_for_is_an_error(started: Path, stand_in: StandIn) -> None:
    stand_in("systemctl", "echo no bus >&2; exit 1")
    with ssh_stand_in.session() as head, pytest.raises(CommandFailed, match="start the run"):
        systemd_units.start(head, builders.cluster(), builders.run(id="b"), [])
    assert started.read_text() == ""
