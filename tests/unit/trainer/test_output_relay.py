"""Output of a rank as its launcher and the run's log get it."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.launch_layout import Layout
from orchestrator.trainer.supervision import output_relay
from tests.stand_ins import wrapped_rank
from tests.unit.conftest import Start


@pytest.fixture
def run_directory(tmp_path: Path) -> Path:
    return wrapped_rank.directory(tmp_path)


def test_output_is_relayed_at_once(start: Start, run_directory: Path) -> None:
    child = wrapped_rank.python(
        start, run_directory, "import time; print('working', end='\\r', flush=True); time.sleep(60)"
    )
    assert child.stdout is not None
    assert os.read(child.stdout.fileno(), 100) == b"working\r"


@pytest.mark.parametrize(
    ("written", "pieces"),
    [
        (["one", " line\n", None, "prompt: "], [b"one line\n", b"prompt: \n"]),
        (["\r 10%", None, "\r 20%"], [b"\r", b" 10%\r", b"\r", b" 20%\r"]),
    ],
)
def test_line_without_an_end_is_ended_after_a_pause(
    start: Start, run_directory: Path, written: list[str | None], pieces: list[bytes]
) -> None:
    code = f"import sys, time\nfor piece in {written!r}:\n    sys.stdout.write(piece or ''); sys.stdout.flush()\n"
    code += "    time.sleep(0.4 if piece else 2)\ntime.sleep(60)"
    child = wrapped_rank.python(start, run_directory, code)
    assert child.stdout is not None
    assert [os.read(child.stdout.fileno(), 100) for _ in pieces] == pieces


@pytest.mark.parametrize("size", [4, 5, 9])
def test_windows_line_end_that_two_reads_return_gets_one_tag(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_relay, "PIECE", size)
    (source, sink), (result, target) = os.pipe(), os.pipe()
    os.write(sink, b"one\r\ntwo\r\n")
    os.close(sink)
    output_relay._copy(source, target, b"[1]<stdout>:")
    os.close(target)
    with os.fdopen(result, "rb") as relayed:
        assert relayed.read() == b"[1]<stdout>:one\r\n[1]<stdout>:two\r\n"


def test_last_line_is_ended_with_its_rank(run_directory: Path) -> None:
    printed = wrapped_rank.finished(run_directory, sys.executable, "-c", "print('half', end='')")
    assert printed.stdout == "half\n"


def test_unfinished_lines_of_two_ranks_share_no_line(run_directory: Path, tmp_path: Path) -> None:
    """The relay tags the lines of both ranks, which write to one log, as those of a host do with torchrun."""
    (run_directory / "launch.json").write_text(Layout({"h": 2}, ["h", "h"], "lo", 1, math.inf, {"h": []}).text())
    code = "import os, time; print(end='half ', flush=True); time.sleep(2); print('of', os.environ['RANK'])"
    (run_directory / "program.json").write_text(json.dumps([sys.executable, "-c", code]))
    command = [sys.executable, "-m", "orchestrator.trainer.supervision.rank_wrapper", str(run_directory)]
    environment = {**os.environ, "ORCHESTRATOR_RUN": run_directory.name}
    with (tmp_path / "log").open("ab") as log:
        ranks = [subprocess.Popen(command, env={**environment, "RANK": str(rank)}, stdout=log) for rank in range(2)]
        assert [rank.wait() for rank in ranks] == [0, 0]
    lines = sorted((tmp_path / "log").read_text().splitlines())
    assert lines == [f"[{rank}]<stdout>:{words}" for rank in range(2) for words in ("half ", f"of {rank}")]


def test_output_streams_are_relayed_separately(run_directory: Path) -> None:
    code = "import sys; print('x' * 3_000_000, file=sys.stderr); print('y' * 3_000_000)"
    printed = wrapped_rank.finished(run_directory, sys.executable, "-c", code)
    assert (printed.stdout, printed.stderr) == ("y" * 3_000_000 + "\n", "x" * 3_000_000 + "\n")
