"""Progress where there is no terminal: plain lines on standard error."""

import pytest

from orchestrator import progress


def test_a_step_says_when_it_begins_and_how_it_ended(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.step("Checking [nodes]"):
        pass
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == ["Checking [nodes] ...", "Checking [nodes]: done in 0.0 s"]


def test_a_step_that_fails_says_so_and_lets_the_error_through(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZeroDivisionError), progress.step("Dividing"):
        raise ZeroDivisionError
    assert "Dividing: failed in" in capsys.readouterr().err


def test_details_that_follow_each_other_at_once_are_kept_from_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.step("Copying") as step:
        step.detail("1 of 2 files")
    assert "1 of 2 files" not in capsys.readouterr().err


def test_the_seconds_of_every_step_are_known_afterwards() -> None:
    with progress.step("Sleeping soundly"):
        pass
    assert 0.0 <= progress.seconds()["Sleeping soundly"] < 1.0
