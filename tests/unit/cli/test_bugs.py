"""Unforeseen ends of a command: a bug, an interrupt, a closed pipe."""

import errno
import os
import platform
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator import __version__
from tests import builders
from tests.unit.conftest import COMMAND, Cli

# The command line with an additional command that executes `{action}`, because no command has a known bug.
WITH_ONE_MORE = """
import os, signal, sys, time
from orchestrator.cli import app, main
def surprise() -> None:
    {action}
app.command("surprise")(surprise)
main()
"""


def surprise(action: str, directory: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", WITH_ONE_MORE.format(action=action), "surprise"]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)


def test_bug_ends_with_3_and_one_line_that_names_a_crash_log(tmp_path: Path, own_directories: Path) -> None:
    finished = surprise("1 / 0", tmp_path)
    assert (finished.returncode, finished.stdout) == (3, "")
    logs = list(own_directories.glob("crash-*.log"))
    assert len(logs) == 1
    assert finished.stderr.splitlines() == [
        "error: a bug: ZeroDivisionError: division by zero",
        f"please open an issue and attach {logs[0]}",
    ]


def test_crash_log_has_traceback_versions_and_private_mode(tmp_path: Path, own_directories: Path) -> None:
    surprise("1 / 0", tmp_path)
    log = next(own_directories.glob("crash-*.log"))
    text = log.read_text()
    assert text.startswith(f"orchestrator {__version__}, Python {platform.python_version()}")
    assert "'surprise'" in text
    assert "ZeroDivisionError" in text.splitlines()[-1]
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_crash_log_contains_no_value_of_a_variable(tmp_path: Path, own_directories: Path) -> None:
    words = ["run", "--env", "TOKEN=sec=ret", "--env=KEY=sec=ret", "--env=NAME", "--", "x=y"]
    surprise(f"sys.argv[1:] = {words}; 1 / 0", tmp_path)
    text = next(own_directories.glob("crash-*.log")).read_text()
    assert "'run', '--env', 'TOKEN=…', '--env=KEY=…', '--env=NAME', '--', 'x=y'" in text
    assert "sec" not in text.splitlines()[1]


def test_bug_is_reported_without_a_writable_crash_log(tmp_path: Path, own_directories: Path) -> None:
    own_directories.touch()  # a file in place of the directory for logs
    finished = surprise("1 / 0", tmp_path)
    assert finished.returncode == 3
    assert "a bug: ZeroDivisionError" in finished.stderr


@pytest.mark.parametrize("kind", ["EACCES", "EPERM", "EROFS"])
def test_path_without_access_is_no_bug(tmp_path: Path, own_directories: Path, kind: str) -> None:
    number = getattr(errno, kind)
    finished = surprise(f"raise OSError({number}, os.strerror({number}), 'data/x')", tmp_path)
    assert (finished.returncode, finished.stdout) == (2, "")
    assert finished.stderr.startswith(f"error: 'data/x': {os.strerror(number)}\ngive your account access to it")
    assert not own_directories.exists()


def test_interrupt_ends_with_130(tmp_path: Path) -> None:
    finished = surprise("os.kill(os.getpid(), signal.SIGINT); time.sleep(10)", tmp_path)
    assert finished.returncode == 130
    assert "Traceback" not in finished.stderr


def test_declined_question_ends_with_130_and_is_no_bug(tmp_path: Path) -> None:
    finished = surprise("import typer; typer.confirm('remove?', abort=True)", tmp_path)
    assert finished.returncode == 130
    assert "a bug" not in finished.stderr


def test_closed_pipe_is_no_error(tmp_path: Path) -> None:
    """As in `orchestrator inventory | head -1`: more output than a pipe holds, to a closed reader."""
    builders.deployed(nodes=100)
    reading, writing = os.pipe()
    with subprocess.Popen(
        [COMMAND, "inventory"], cwd=tmp_path, stdout=writing, stderr=subprocess.PIPE, text=True
    ) as child:
        os.close(writing)
        os.close(reading)
        assert child.communicate()[1] == ""
        assert child.returncode == 0


def test_installed_command_prints_its_version(tmp_path: Path) -> None:
    finished = subprocess.run([COMMAND, "--version"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, f"orchestrator {__version__}\n", "")


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["train", "--help"], ["--version"]])
def test_help_and_version_go_to_standard_output(cli: Cli, arguments: list[str]) -> None:
    finished = cli(*arguments)
    assert (finished.returncode, finished.stderr) == (0, "")
    assert "orchestrator" in finished.stdout
