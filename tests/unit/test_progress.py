"""Progress on standard error: plain lines, and a live line where there is a terminal."""

import os
import re
import subprocess
import sys

import pytest

from orchestrator import progress


def test_a_step_says_when_it_begins_and_how_it_ended(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.step("Checking [nodes]"):
        pass
    said = capsys.readouterr()
    assert said.out == ""
    begun, done = said.err.splitlines()
    assert begun == "Checking [nodes] ..."
    assert re.fullmatch(r"Checking \[nodes\]: done in \d+\.\d s", done)


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


def test_on_a_terminal_a_step_is_live_and_then_marked() -> None:
    code = """
import time
from orchestrator import progress
with progress.step("Making") as step:
    step.detail("2 of 3")
    time.sleep(0.5)
"""
    ours, theirs = os.openpty()
    subprocess.run([sys.executable, "-c", code], stderr=theirs, env={**os.environ, "TERM": "xterm"}, check=True)
    os.close(theirs)
    said = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert "2 of 3" in said
    assert "✓" in said
