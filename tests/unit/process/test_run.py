"""External programs, with a real Python as the program."""

import sys
import time
from pathlib import Path

import pytest

from orchestrator import process
from orchestrator.errors import CommandFailed, OrchestratorError, PreflightError
from orchestrator.process import interrupts
from tests import waiting


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_only_standard_output_is_returned() -> None:
    code = "import sys; print('out'); print('err', file=sys.stderr)"
    assert process.run("speak", python(code)) == "out\n"


def test_time_to_read_a_line_grows_with_its_length() -> None:
    """The names of ImageNet's files come as one line of 53 MB."""
    begin, half = time.process_time(), 1 << 24
    output = process.run("speak", python(f"print('before'); print('é' * {half}); print('after', end='')"))
    assert time.process_time() - begin < 3  # of this process: 0.2 s, and more than 10 s if pieces are joined one by one
    assert output == f"before\n{'é' * half}\nafter"


def test_output_is_appended_to_the_log_after_the_command(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for word in ("first", "second"):
        process.run("speak", python(f"import sys; print('{word}'); sys.stderr.write('aside\\n')"), log)
    lines = log.read_text().splitlines()
    assert [line for line in lines if line in ("first", "second")] == ["first", "second"]
    assert lines.count("aside") == 2
    assert [line.split()[:2] for line in lines if line.startswith("$")] == [["$", sys.executable]] * 2


def test_lines_are_passed_on_immediately(tmp_path: Path) -> None:
    """The program continues only after its first line was received, which creates a file."""
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
def test_failure_has_exit_code_command_and_step(code: str, exit_code: int) -> None:
    with pytest.raises(CommandFailed) as caught:
        process.run("try it", python(code))
    assert caught.value.message.startswith("try it: `")
    assert f"failed (exit code {exit_code})" in caught.value.message
    assert caught.value.argv == python(code)


def test_failure_shows_the_last_20_lines_and_the_log(tmp_path: Path) -> None:
    code = "import sys\nfor n in range(50): print(f'line {n}'); print()\nsys.exit(1)"
    with pytest.raises(CommandFailed) as caught:
        process.run("count", python(code), tmp_path / "log")
    assert caught.value.tail == [f"line {number}" for number in range(30, 50)]
    assert caught.value.hint == f"whole log: {tmp_path / 'log'}"
    assert "line 0\n" in (tmp_path / "log").read_text()


def test_missing_program_is_named() -> None:
    with pytest.raises(CommandFailed, match=r"no-such-program.*No such file"):
        process.run("try it", ["no-such-program", "--flag"])


def test_program_gets_environment_with_additions_and_directory(tmp_path: Path) -> None:
    code = "import os; print(os.environ['HOME'], os.environ['ADDED'], os.getcwd())"
    output = process.run("look", python(code), cwd=tmp_path, env={"ADDED": "yes"})
    assert output.split() == [str(Path.home()), "yes", str(tmp_path)]


def test_variable_can_be_hidden_from_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNWANTED", "yes")
    code = "import os; print('UNWANTED' in os.environ)"
    assert process.run("look", python(code), env={"UNWANTED": None}) == "False\n"


def test_program_without_a_writable_log_is_not_started(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="missing/log: No such file"):
        process.run("touch", ["touch", str(tmp_path / "touched")], tmp_path / "missing" / "log")
    assert list(tmp_path.iterdir()) == []


def test_required_program_is_named_with_the_remedy() -> None:
    process.require("sh", "install it")
    with pytest.raises(PreflightError, match="no-such-program is not on the PATH") as caught:
        process.require("no-such-program", "install it")
    assert caught.value.hint == "install it"


def test_program_has_no_input_to_wait_for() -> None:
    assert process.run("read", python("import sys; print(repr(sys.stdin.read()))")) == "''\n"


def test_program_has_its_own_session() -> None:
    own, parents = process.run("look", python("import os; print(os.getsid(0), os.getsid(os.getppid()))")).split()
    assert own != parents


def test_invalid_utf_8_is_replaced() -> None:
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
    """Shorten the waits between signals, which are a minute for Terraform, to tenths of a second."""
    monkeypatch.setattr(interrupts, "INTERRUPT_SECONDS", 0.3)
    monkeypatch.setattr(interrupts, "TERMINATE_SECONDS", 0.3)


@pytest.mark.usefixtures("short_waits")
def test_stubborn_program_is_interrupted_terminated_and_killed(tmp_path: Path) -> None:
    pids: list[int] = []

    def give_up(line: str) -> None:
        pids.append(int(line))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        process.run("wait", python(STUBBORN), tmp_path / "log", on_line=give_up)
    assert waiting.ends(pids[0])
    assert waiting.until(lambda: (tmp_path / "log").read_text().split()[-2:] == ["SIGINT", "SIGTERM"])


def test_program_that_handles_an_interrupt_ends_by_itself(tmp_path: Path) -> None:
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


def test_program_that_exceeds_its_time_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommandFailed, match="no end within 0 s"):
        process.run("sleep", ["sleep", "60"], seconds=0.2)


def test_log_on_a_full_disk_is_named() -> None:
    with pytest.raises(CommandFailed, match="/dev/full: No space left on device"):
        process.run("say", ["echo"], Path("/dev/full"))


def test_program_with_too_long_arguments_is_an_error_with_the_remedy() -> None:
    with pytest.raises(OrchestratorError, match="true cannot be started: Argument list too long") as caught:
        process.replace(["true", "x" * (1 << 20)])
    assert "`orchestrator cp`" in caught.value.hint
