"""Unusual streams, locales, widths and directories: never a traceback, never exit code 3 or 120."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests import builders
from tests.stand_ins.hostile import assert_refused
from tests.unit.conftest import COMMAND, Cli

NOT_UTF8 = os.fsdecode(b"caf\xe9")
AS_NOBODY = """
import os, sys
import rich.traceback, orchestrator.cli.runs
os.setgid(54321); os.setuid(54321)
sys.argv = ["orchestrator", "runs"]
orchestrator.cli.main()
"""


def shell(line: str, directory: Path, **environment: str | None) -> "subprocess.CompletedProcess[str]":
    """Run a line of bash in which `orchestrator` is the installed command; None unsets a variable."""
    whole = {**os.environ, "PATH": f"{COMMAND.parent}:{os.environ['PATH']}", **environment}
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}"],
        cwd=directory,
        env={name: value for name, value in whole.items() if value is not None},
        capture_output=True,
        encoding="utf-8",
        errors="backslashreplace",
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("orchestrator inventory >&-", "standard output: Bad file descriptor"),
        ("orchestrator --help >&-", "standard output: Bad file descriptor"),
        ("orchestrator inventory > /dev/full", "standard output: No space left on device"),
        ("orchestrator --version > /dev/full", "standard output: No space left on device"),
        ("orchestrator models > /dev/full", "standard output: No space left on device"),
        ("ulimit -f 0; orchestrator models > output", "standard output: File too large"),
        ("ulimit -f 0; orchestrator plan", "error: "),
        ("rmdir $PWD; orchestrator runs", "the working directory: No such file"),
    ],
)
def test_unwritable_or_unreadable_file_is_one_error(tmp_path: Path, line: str, reason: str) -> None:
    builders.deployed()
    state_dir = tmp_path / "here"
    state_dir.mkdir()
    assert_refused(shell(line, state_dir), reason)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["logs", NOT_UTF8], "b'caf\\xe9': not UTF-8"),
        (["init", "a" * 300], "File name too long"),
        (["init", "--force", "pipe"], "pipe is a pipe"),
        (["init", "--force", "/dev/full"], "No space left on device"),
        (["study", "init", "--force", "pipe"], "pipe is a pipe"),
        (["study", "init", f"{'d' * 300}/a.yaml"], "File name too long"),
        (["top", "--interval=99999999999999h"], "--interval"),
        (["top", "--interval=" + "9" * 5000], "--interval"),
        (["runs", "--config", "/dev/zero"], "/dev/zero: is a device, not a file"),
        (["runs", "--config", "pipe"], "pipe: is a pipe, not a file"),
        (["runs", "--config", "dangling"], "dangling: No such file or directory"),
        (["runs", "--config", "."], ".: is a directory, not a file"),
        (["runs", "--cluster", "a" * 3000], "name: 'aaa"),
        (["ssh", "x" * 3000], "no node 'xxx"),
        (["logs", "x" * 3000], "no run"),
        (["runs", "--cluster", ""], "name: ''"),
        (["deploy", "--nodes", "9" * 3000], "nodes"),
        (["deploy", "--cpus", "1e999"], "cpus"),
        (["deploy", "--subnet", "0.0.0.0/0"], "0.0.0.0/0"),
        (["train", "lenet", "--dataset", "mnist", "--max-time", "9" * 400 + "h"], "max_time"),
        (["train", "lenet", "--dataset", "mnist", "--learning-rate", "nan"], "learning_rate"),
        (["deploy", "--grafana-password-file", "/dev/zero"], "/dev/zero: is a device"),
    ],
)
def test_unusable_arguments_are_refused(cli: Cli, tmp_path: Path, arguments: list[str], reason: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dangling").symlink_to("nowhere")
    builders.deployed()
    assert_refused(cli(*arguments), reason)


@pytest.mark.parametrize("command", ["init", "study init"])
def test_init_on_a_full_disk_keeps_the_file_before(tmp_path: Path, command: str) -> None:
    (tmp_path / "mine.yaml").write_text("name: mine\n")
    for words in ("new.yaml", "--force mine.yaml"):
        assert_refused(shell(f"ulimit -f 0; orchestrator {command} {words}", tmp_path), "File too large")
    assert {path.name: path.read_text() for path in tmp_path.glob("*.yaml")} == {"mine.yaml": "name: mine\n"}


def test_dangling_link_of_cluster_yaml_is_not_ignored(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").symlink_to("nowhere")
    for command in ("runs", "plan", "teardown"):
        assert_refused(cli(command), "cluster.yaml: No such file or directory")


@pytest.mark.parametrize(
    "line",
    [
        "orchestrator models | head -0",
        "orchestrator --help | head -0",
        "orchestrator inventory 2>&1 | head -0",
        "orchestrator models 2>&-",
        "orchestrator models 2> /dev/full",
        "orchestrator models <&-",
        "orchestrator models <&- 2>&-",
    ],
)
def test_closed_reader_or_standard_error_does_not_end_a_command(tmp_path: Path, line: str) -> None:
    builders.deployed(nodes=100)
    finished = shell(line, tmp_path)
    assert (finished.returncode, finished.stderr) == (0, "")


@pytest.mark.parametrize("line", ["orchestrator colour 2> /dev/full", "orchestrator logs 2>&-"])
def test_exit_code_is_kept_if_the_error_cannot_be_printed(tmp_path: Path, line: str) -> None:
    finished = shell(line, tmp_path)
    assert finished.returncode in (1, 2)


@pytest.mark.parametrize(
    ("command", "environment"),
    [
        ("train --help", {"PYTHONIOENCODING": "ascii", "COLUMNS": "99999999"}),
        ("train --help", {"TERMINAL_WIDTH": "wide", "LINES": "-1", "FORCE_COLOR": "1", "TERM": "nonsense"}),
        ("runs", {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "COLUMNS": "9" * 5000}),
        ("models", {"LC_ALL": "xx_XX.nonsense", "COLUMNS": "\u00b2"}),
    ],
)
def test_help_and_results_are_printed_in_any_locale_and_width(
    tmp_path: Path, command: str, environment: dict[str, str]
) -> None:
    (tmp_path / "cluster.yaml").write_bytes("currency: \u20ac\n".encode())
    finished = shell(f"orchestrator {command}", tmp_path, **environment)
    assert finished.returncode == 0, finished.stderr
    assert "Traceback" not in finished.stderr
    assert finished.stdout


def test_user_without_home_or_name_is_told_which_variable_to_set(tmp_path: Path) -> None:
    unset = {"HOME": None, "XDG_STATE_HOME": None, "XDG_CACHE_HOME": None}
    if os.getuid():
        pytest.skip("only root can become a user without an entry in /etc/passwd")
    tmp_path.chmod(0o777)
    finished = shell(f"exec {shlex.quote(sys.executable)} -c {shlex.quote(AS_NOBODY)}", Path("/"), **unset)
    assert_refused(finished, "no home directory", "set HOME, or XDG_STATE_HOME")


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({"DOCKER_HOST": "tcp://localhost:99999"}, "Port out of range"),
        ({"DOCKER_HOST": "tcp://localhost:port"}, "port"),
        ({"DOCKER_HOST": "ssh://nobody@127.0.0.1:1"}, "Unable to connect to port 1"),
        ({"DOCKER_HOST": "nonsense://"}, "nonsense"),
        ({"DOCKER_CONTEXT": "missing"}, "missing"),
        ({"DOCKER_CONFIG": "damaged"}, "config.json"),
    ],
)
def test_unusable_docker_settings_are_named(cli: Cli, tmp_path: Path, environment: dict[str, str], reason: str) -> None:
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "config.json").write_text("[]")
    assert_refused(cli("plan", **{"DOCKER_HOST": "", **environment}), reason)


def test_missing_ssh_client_is_reported_with_its_package(tmp_path: Path) -> None:
    builders.deployed()
    finished = shell(f"PATH= exec {shlex.quote(str(COMMAND))} ssh", tmp_path)
    assert_refused(finished, "ssh is not on the PATH", "openssh-client")


@pytest.mark.parametrize("command", [("study", "report"), ("study", "--resume")])
def test_too_long_path_is_an_error_with_the_path(cli: Cli, command: tuple[str, ...]) -> None:
    finished = cli(*command, "x" * 300)
    assert finished.returncode == 2, finished.stderr
    assert "error: 'xxx" in finished.stderr
    assert "File name too long" in finished.stderr
