"""Progress on standard error: plain lines, and a live line on a terminal."""

import os
import re
import subprocess
import sys

import pytest
from rich.live import Live
from rich.text import Text

from orchestrator import progress
from orchestrator.cli import output

HOSTILE = {
    "colour": ("\x1b[31mred\x1b[0m", "red"),
    "title": ("\x1b]0;owned\x07a", "a"),
    "title ended by ST": ("\x1b]2;owned\x1b\\a", "a"),
    "clipboard": ("\x1b]52;c;cm0gLXJmIH4=\x07a", "a"),
    "link": ("\x1b]8;;https://evil.example\x1b\\word\x1b]8;;\x1b\\", "word"),
    "device control": ("\x1bPq#0;2\x1b\\a", "a"),
    "erasing": ("a\x1b[2J\x1b[1;1Hb", "ab"),
    "C1 CSI": ("a\x9b31mb", "ab"),
    "C1 OSC": ("a\x9d0;owned\x9cb", "ab"),
    "string without end": ("\x1b]0;shown", "0;shown"),
    "sequence without end": ("a\x1b[", "a"),
    "lone escape": ("a\x1b", "a"),
    "reset": ("\x1bca", "a"),
    "character set": ("\x1b(0a", "a"),
    "bell, backspace, carriage return": ("a\x07\x08\rb", "ab"),
    "nul and delete": ("a\x00\x7fb", "ab"),
    "turned around": ("a\u202eb\u2066c", "abc"),
    "half a surrogate pair": ("a\udcffb", "a?b"),
    "newline and tab": ("a\n\tb", "a\n\tb"),
    "letters": ("Größe ✓ 日本", "Größe ✓ 日本"),
}


@pytest.mark.parametrize(("text", "shown"), HOSTILE.values(), ids=HOSTILE)
def test_control_sequences_for_terminals_are_stripped(text: str, shown: str) -> None:
    assert progress.plain(text) == shown


@pytest.mark.parametrize("terminal", [False, True])
def test_printed_text_never_reaches_the_terminal_raw(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = "".join(text for text, _ in HOSTILE.values()) + "\x1b[?1049h"
    for console in (progress.console, output.console):
        monkeypatch.setattr(console, "_force_terminal", terminal)
    output.line(hostile)
    output.table(["a"], [[hostile]])
    output.stream([hostile.encode(errors="replace")[:3], hostile.encode(errors="replace")[3:]])
    progress.note(hostile)
    with progress.step(hostile) as step:
        step.detail(hostile)
    written = "".join(capsys.readouterr())
    with Live(Text(hostile), console=output.console):
        pass
    drawn = "".join(capsys.readouterr())
    ours = re.compile(r"\x1b\[(\?25[lh]|[0-9]*[AKG]|[0-9;]*m)|\r")  # cursor, line and colours of rich
    left = re.findall(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", ours.sub("", written + drawn))
    texts = [text for text in ("owned", "1049", "evil") if text in written]
    assert (left, texts) == ([], [])


def test_escape_sequence_in_pieces_is_stripped(capsys: pytest.CaptureFixture[str]) -> None:
    output.stream([b"a\x1b", b"]52;", b"c;cm0=", b"\x07b\n", b"\xc2", b"\x9b2Jc\n"])
    assert capsys.readouterr().out == "ab\nc\n"


def test_step_prints_its_start_and_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.step("Checking [nodes]"):
        pass
    captured = capsys.readouterr()
    assert captured.out == ""
    first, last = captured.err.splitlines()
    assert first == "Checking [nodes] ..."
    assert re.fullmatch(r"Checking \[nodes\]: done in \d+\.\d s", last)


def test_failed_step_is_printed_and_the_error_propagates(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZeroDivisionError), progress.step("Dividing"):
        raise ZeroDivisionError
    assert "Dividing: failed in" in capsys.readouterr().err


def test_rapid_details_are_left_out_of_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.step("Copying") as step:
        step.detail("1 of 2 files")
    assert "1 of 2 files" not in capsys.readouterr().err


def test_seconds_of_every_step_are_recorded() -> None:
    with progress.step("Sleeping soundly"):
        pass
    assert 0.0 <= progress.seconds()["Sleeping soundly"] < 1.0


def test_step_on_a_terminal_is_live_and_then_marked() -> None:
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
    screen = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert "2 of 3" in screen
    assert "✓" in screen


def test_many_unfinished_escapes_are_removed_in_linear_time() -> None:
    """Each may begin a sequence that lasts to the end of the text: a search from each would take hours."""
    assert progress.plain("\x90" * (4 << 20) + "end") == "end"


FORCED = """
from orchestrator import progress
from orchestrator.cli import output
with progress.step("Checking"):
    output.stream([b"hello"])
"""


def test_forced_colours_draw_no_live_line_in_a_file() -> None:
    written = subprocess.run(
        [sys.executable, "-c", FORCED],
        env={**os.environ, "FORCE_COLOR": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.findall(r"\x1b\[[0-9;?]*[A-Zhl]", written.stdout + written.stderr) == []  # no cursor movement
    assert written.stderr.startswith("Checking ...\n")
