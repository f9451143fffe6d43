"""Units of runs on the head: units with processes are active runs."""

from pathlib import Path

import pytest

from orchestrator.runs import control
from orchestrator.runs.control import systemd_units
from tests.stand_ins import ssh_stand_in

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
