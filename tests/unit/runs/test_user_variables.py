"""Variables that a user sets for ranks: reading, refusals, and their file on the head."""

import json
import os
import stat
import time
from pathlib import Path

import pytest

from orchestrator import state
from orchestrator.errors import ConfigError
from orchestrator.launch_layout import RAY_TOKEN
from orchestrator.runs import collected_files, run_record, user_variables
from orchestrator.trainer.supervision import user_variables as of_ranks
from tests import builders
from tests.stand_ins import ssh_stand_in
from tests.unit.conftest import Cli

LINES = (
    r"""# a comment
PLAIN=as it is # said here
  SPACED  =  around it
export EXPORTED=yes

EMPTY=
HASH=a#b
SINGLE='keeps $HOME, # and \n'   # a comment
DOUBLE="has \"quotes\", \\ and\nlines"
EQUALS=a=b==
CARRIAGE=return"""
    + "\r\nFROM_HERE\n"
)
VALUES = {
    "PLAIN": "as it is",
    "SPACED": "around it",
    "EXPORTED": "yes",
    "EMPTY": "",
    "HASH": "a#b",
    "SINGLE": r"keeps $HOME, # and \n",
    "DOUBLE": 'has "quotes", \\ and\nlines',
    "EQUALS": "a=b==",
    "CARRIAGE": "return",
    "FROM_HERE": "here",
}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FROM_HERE", "here")
    path = tmp_path / "settings"
    path.write_bytes(LINES.encode())
    return path


def problems(*settings: str, files: tuple[Path, ...] = ()) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        user_variables.read(settings, files)
    return caught.value.problems


def test_file_may_have_comments_quotes_and_local_values(file: Path) -> None:
    environment = user_variables.read([], [file])
    assert (environment.values, environment.files) == (VALUES, (file,))


def test_value_on_the_command_line_is_literal_and_wins(file: Path) -> None:
    environment = user_variables.read(['PLAIN="a # b"', "FROM_HERE", "PATH=/opt/mine:/bin"], [file])
    assert environment.values == {**VALUES, "PLAIN": '"a # b"', "PATH": "/opt/mine:/bin"}


def test_variable_that_is_not_set_here_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ABSENT", raising=False)
    assert problems("ABSENT") == ["--env: ABSENT is not set in your environment: export it, or give ABSENT=VALUE"]


@pytest.mark.parametrize("name", ["HOROVOD_RANK", "MASTER_ADDR", "TF_CONFIG", "OMPI_COMM_WORLD_RANK"])
def test_variable_that_is_set_for_each_rank_is_refused(name: str) -> None:
    assert problems(f"{name}=x") == [f"--env: {name!r} is set for each rank by this program and cannot be changed"]


def test_run_variables_except_paths_and_threads_are_refused() -> None:
    names = {name for name in run_record.environment(builders.run()) if name.startswith("ORCHESTRATOR")}
    assert names
    assert len(problems(*(f"{name}=x" for name in names))) == len(names)


@pytest.mark.parametrize("name", ["NCCL_DEBUG", "OMP_NUM_THREADS", "PYTHONPATH", "HOROVOD_CYCLE_TIME", "_x1"])
def test_settings_of_libraries_may_be_changed(name: str) -> None:
    assert user_variables.read([f"{name}=1"], []).values == {name: "1"}


@pytest.mark.parametrize("setting", ["=secret", "1A=secret", "A B=secret", "Ä=secret", "A-B=secret", "A\nB=secret", ""])
def test_no_message_shows_a_value(setting: str, tmp_path: Path) -> None:
    lines = ["", setting.replace("\n", " ") or "-----secret-----", "secret", "Q='secret", ""]
    (tmp_path / "settings").write_text("\n".join(lines))
    messages = [*problems(setting), *problems(files=(tmp_path / "settings",))]
    assert messages[0].startswith("--env: the name before = must be")
    assert f"{tmp_path / 'settings'}: line 2: the name before = must be" in messages[1]
    assert [line.split(": ")[1] for line in messages[1:]] == ["line 2", "line 3", "line 4"]
    assert "secret" not in "".join(messages)


def test_values_that_no_program_can_receive_are_refused() -> None:
    assert len(problems("A=" + "x" * (128 << 10), "B=\0")) == 2
    assert problems(*(f"A{n}={'x' * 100_000}" for n in range(11)))[0].startswith("--env: more than 1 MiB")


def test_missing_file_is_named(tmp_path: Path) -> None:
    assert problems(files=(tmp_path / "no",)) == [f"--env-file: {tmp_path / 'no'}: No such file or directory"]


def test_file_of_variables_is_not_sent_with_the_script(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    (tmp_path / "settings").write_text("TOKEN=secret\n")
    finished = cli("run", "--dry-run", "--json", "--env-file", "settings", "--", "python", "train.py")
    assert finished.returncode == 0, finished.stderr
    assert [file["name"] for file in json.loads(finished.stdout)["files"]] == ["train.py"]
    refused = cli("run", "--env-file", "settings", "--env", "RANK=1", "--", "python", "train.py")
    assert refused.returncode == 2
    assert "RANK" in refused.stderr


@pytest.mark.parametrize("more", [("lenet", "--dataset", "synthetic"), ("--resume", "lenet-1")])
def test_train_refuses_variables_like_run(cli: Cli, more: tuple[str, ...]) -> None:
    refused = cli("train", *more, "--env", "RANK=1", "--env", "ABSENT")
    assert refused.returncode == 2
    assert "--env: 'RANK' is set for each rank" in refused.stderr
    assert "--env: ABSENT is not set in your environment" in refused.stderr


@pytest.fixture
def run_on_head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create the directory of run a on a head whose shared storage is a local directory."""
    monkeypatch.setattr(run_record, "SHARED", str(tmp_path / "shared"))
    directory = tmp_path / "shared" / "runs" / "a"
    directory.mkdir(parents=True)
    return directory


def test_only_the_account_of_runs_may_read_variables(run_on_head: Path) -> None:
    run = builders.run(id="a")
    odd = {"A": "ä\n'\"$HOME\\", "B": os.fsdecode(b"\xff")}
    with ssh_stand_in.session() as head:
        user_variables.send(head, run, odd)
    assert stat.S_IMODE((run_on_head / run_record.ENVIRONMENT).stat().st_mode) == 0o600
    assert of_ranks.FILE == run_record.ENVIRONMENT
    assert of_ranks.read(run_on_head) == odd


def test_without_variables_no_file_is_written(run_on_head: Path) -> None:
    with ssh_stand_in.session() as head:
        user_variables.send(head, builders.run(id="a"), {})
    assert list(run_on_head.iterdir()) == []
    assert of_ranks.read(run_on_head) == {}


@pytest.mark.parametrize("queue", [None, "queue-1"])
@pytest.mark.parametrize(
    ("unit_state", "remaining"), [("inactive", ["log"]), ("active", ["environment.json", "log", "ray_token"])]
)
def test_fetching_an_ended_run_removes_variables_unread(
    run_on_head: Path, monkeypatch: pytest.MonkeyPatch, unit_state: str, remaining: list[str], queue: str | None
) -> None:
    (run_on_head.parent / "sudo").write_text(
        f'#!/bin/sh\ntest "$*" = "systemctl is-active orchestrator-{queue or "a"}" && echo {unit_state}\n'
    )
    (run_on_head.parent / "sudo").chmod(0o755)
    monkeypatch.setenv("PATH", f"{run_on_head.parent}:{os.environ['PATH']}")
    for name in (run_record.ENVIRONMENT, RAY_TOKEN, "log"):
        (run_on_head / name).write_text('{"TOKEN": "secret"}')
    with ssh_stand_in.session() as head:
        here = collected_files.collect(state.for_cluster("demo"), head, builders.run(id="a", queue=queue)).directory
    assert sorted(path.name for path in run_on_head.iterdir()) == remaining
    assert not (here / run_record.ENVIRONMENT).exists()


@pytest.mark.parametrize(("seconds", "remains"), [(1, True), (600, False)])
def test_variables_of_a_run_that_is_being_started_stay(
    run_on_head: Path, monkeypatch: pytest.MonkeyPatch, seconds: int, remains: bool
) -> None:
    """Its unit does not exist yet, and makes the log; a command that was killed meanwhile starts it never."""
    (run_on_head.parent / "sudo").write_text("#!/bin/sh\necho inactive\n")
    (run_on_head.parent / "sudo").chmod(0o755)
    monkeypatch.setenv("PATH", f"{run_on_head.parent}:{os.environ['PATH']}")
    variables = run_on_head / run_record.ENVIRONMENT
    with ssh_stand_in.session() as head:
        user_variables.send(head, builders.run(id="a"), {"TOKEN": "secret"})
        os.utime(variables, (time.time() - seconds,) * 2)
        user_variables.remove(head, [builders.run(id="a")])
    assert variables.exists() is remains
