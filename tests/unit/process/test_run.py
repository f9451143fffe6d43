"""Foreign programs, with a real Python as the program."""

import sys
from pathlib import Path

import pytest

from orchestrator import process, termination
from orchestrator.errors import CommandFailed, PreflightError
from tests import waiting


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_the_standard_output_is_returned_and_the_rest_is_not() -> None:
    code = "import sys; print('out'); print('err', file=sys.stderr)"
    assert process.run("speak", python(code)) == "out\n"


def test_everything_a_program_says_is_appended_to_the_log_behind_its_command(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for word in ("first", "second"):
        process.run("speak", python(f"import sys; print('{word}'); sys.stderr.write('aside\\n')"), log)
    lines = log.read_text().splitlines()
    assert [line for line in lines if line in ("first", "second")] == ["first", "second"]
    assert lines.count("aside") == 2
    assert [line.split()[:2] for line in lines if line.startswith("$")] == [["$", sys.executable]] * 2


def test_lines_are_seen_as_they_come(tmp_path: Path) -> None:
    """The program goes on only once its first line was seen: the file is made by whoever saw it."""
    seen_file = tmp_path / "seen"
    code = f"""
import pathlib, time
print("first", flush=True)
while not pathlib.Path({str(seen_file)!r}).exists(): time.sleep(0.01)
print("last")
"""
    lines: list[str] = []

    def watch(line: str) -> None:
        lines.append(line)
        seen_file.touch()

    process.run("speak", python(code), on_line=watch)
    assert lines == ["first", "last"]


@pytest.mark.parametrize(("code", "exit_code"), [("raise SystemExit(7)", 7), ("import os; os.abort()", -6)])
def test_a_failing_program_raises_its_exit_code_its_command_and_its_step(code: str, exit_code: int) -> None:
    with pytest.raises(CommandFailed) as caught:
        process.run("try it", python(code))
    assert caught.value.message.startswith("try it: `")
    assert f"failed (exit code {exit_code})" in caught.value.message
    assert caught.value.argv == python(code)


def test_a_failure_shows_the_last_20_lines_that_hold_words_and_the_path_of_the_log(tmp_path: Path) -> None:
    code = "import sys\nfor n in range(50): print(f'line {n}'); print()\nsys.exit(1)"
    with pytest.raises(CommandFailed) as caught:
        process.run("count", python(code), tmp_path / "log")
    assert caught.value.tail == [f"line {number}" for number in range(30, 50)]
    assert caught.value.hint == f"whole log: {tmp_path / 'log'}"
    assert "line 0\n" in (tmp_path / "log").read_text()


def test_a_program_that_is_missing_fails_with_its_name() -> None:
    with pytest.raises(CommandFailed, match=r"no-such-program.*No such file"):
        process.run("try it", ["no-such-program", "--flag"])


def test_the_program_gets_our_environment_with_additions_and_its_directory(tmp_path: Path) -> None:
    code = "import os; print(os.environ['HOME'], os.environ['ADDED'], os.getcwd())"
    output = process.run("look", python(code), cwd=tmp_path, env={"ADDED": "yes"})
    assert output.split() == [str(Path.home()), "yes", str(tmp_path)]


def test_a_variable_of_ours_can_be_kept_from_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNWANTED", "yes")
    code = "import os; print('UNWANTED' in os.environ)"
    assert process.run("look", python(code), env={"UNWANTED": None}) == "False\n"


def test_a_program_that_no_log_can_be_written_for_is_not_started(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="missing/log: No such file"):
        process.run("touch", ["touch", str(tmp_path / "touched")], tmp_path / "missing" / "log")
    assert list(tmp_path.iterdir()) == []


def test_a_program_that_must_be_there_is_named_with_the_remedy() -> None:
    process.require("sh", "install it")
    with pytest.raises(PreflightError, match="no-such-program is not on the PATH") as caught:
        process.require("no-such-program", "install it")
    assert caught.value.hint == "install it"


def test_the_program_has_no_input_to_wait_for() -> None:
    assert process.run("read", python("import sys; print(repr(sys.stdin.read()))")) == "''\n"


def test_the_program_has_a_session_of_its_own() -> None:
    own, parents = process.run("look", python("import os; print(os.getsid(0), os.getsid(os.getppid()))")).split()
    assert own != parents


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert process.run("speak", python(r"import sys; sys.stdout.buffer.write(b'\xff\n')")) == "�\n"


STUBBORN = """
import os, signal, sys, time
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, frame: print(signal.Signals(number).name, file=sys.stderr, flush=True))
print(os.getpid(), flush=True)
while True: time.sleep(1)
"""


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The waits between signals in tenths of a second: Terraform gets a minute, a unit test does not have one."""
    monkeypatch.setattr(termination, "INTERRUPT_SECONDS", 0.3)
    monkeypatch.setattr(termination, "TERMINATE_SECONDS", 0.3)


@pytest.mark.usefixtures("short_waits")
def test_a_stubborn_program_is_interrupted_then_terminated_then_killed(tmp_path: Path) -> None:
    pids: list[int] = []

    def give_up(line: str) -> None:
        pids.append(int(line))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        process.run("wait", python(STUBBORN), tmp_path / "log", on_line=give_up)
    assert waiting.ends(pids[0])
    assert waiting.until(lambda: (tmp_path / "log").read_text().split()[-2:] == ["SIGINT", "SIGTERM"])


def test_a_program_that_heeds_an_interrupt_ends_its_own_way(tmp_path: Path) -> None:
    note = tmp_path / "said"
    code = f"""
import pathlib, time
try:
    print('ready', flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    pathlib.Path({str(note)!r}).write_text('saved my state')
"""

    def give_up(line: str) -> None:
        raise ValueError(line)

    with pytest.raises(ValueError, match="ready"):
        process.run("wait", python(code), on_line=give_up)
    assert note.read_text() == "saved my state"


def test_a_program_that_does_not_end_in_time_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommandFailed, match="no end within 0 s"):
        process.run("sleep", ["sleep", "60"], seconds=0.2)


def test_a_log_on_a_full_disk_is_named() -> None:
    with pytest.raises(CommandFailed, match="/dev/full: No space left on device"):
        process.run("say", ["echo"], Path("/dev/full"))
