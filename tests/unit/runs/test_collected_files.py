"""Fetching a run: by one command at a time, only requested files, and never at the cost of an older copy."""

import io
import os
import shutil
import signal
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from orchestrator import state
from orchestrator.errors import CommandFailed, ContractError, StateError
from orchestrator.runs import choose_checkpoint, collected_files, fetch_limits, run_record
from orchestrator.runs.run_record import Run
from orchestrator.schema import CheckpointEntry, Checkpoints, RunStatus
from tests import builders, waiting
from tests.stand_ins import ssh_stand_in
from tests.stand_ins.ssh_stand_in import Answer
from tests.unit.conftest import StandIn, Start

FETCH = """
from orchestrator.runs import collected_files
from orchestrator import state
with collected_files._fetching(state.for_cluster("demo").runs / "a", 60):
    print("fetching")
"""
# Replaces the local copy of run a by .collecting-new, and is killed before the system call number argv[1].
KILLED = """
import os, signal, sys
from pathlib import Path
from orchestrator.runs import collected_files
from orchestrator import state
target, left = state.for_cluster("demo").runs / "a", int(sys.argv[1])

def dying(event, arguments):
    global left
    changes = event in ("os.rename", "os.remove", "os.rmdir")
    left -= changes
    if changes and left < 0:
        os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(dying)
new = Path(sys.argv[2])
for name in ("checkpoints", "log"):
    collected_files._replace(new / name, target / name)
"""
# Root without what lets it read any file; others have nothing to drop.
UNPRIVILEGED = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
FIND = "env LC_ALL=C find"
STATUS = RunStatus(state="finished", exit_code=0, started=1.0, ended=2.0)


@pytest.fixture
def run_on_head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write the directory of run a on a head whose shared storage is a local directory."""
    monkeypatch.setattr(run_record, "SHARED", str(tmp_path / "shared"))
    directory = tmp_path / "shared" / "runs" / "a"
    write(directory, {"log": "a line\n", "hostfile": "x slots=1\n", "output/deep/file": "result", "src/x.py": "pass"})
    for name in ("epoch-0001", "epoch-0002", "epoch-0003"):
        write(directory / "checkpoints" / name, {"state": name})
    entries = [CheckpointEntry(name=f"epoch-000{n}", epoch=n, step=n, world=1, whole=True) for n in (1, 2, 3)]
    Checkpoints(entries=entries, best="epoch-0001").write(directory / "checkpoints" / "index.json")
    STATUS.write(directory / "status.json")
    return directory


def write(directory: Path, contents: dict[str, str]) -> None:
    for name, text in contents.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)


def collect(answer: Answer = ssh_stand_in.honest) -> Path:
    with ssh_stand_in.session(answer) as head:
        return collected_files.collect(state.for_cluster("demo"), head, builders.run(id="a")).directory


def tree(directory: Path) -> dict[str, str]:
    """Return every file of a directory, except the lock."""
    files = (path for path in directory.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(directory)): path.read_text() for path in files}


def test_run_is_fetched_with_its_newest_and_best_checkpoint(run_on_head: Path) -> None:
    files = tree(collect())
    names = {"log", "hostfile", "status.json", "output/deep/file", "checkpoints/index.json"}
    assert set(files) == {*names, "checkpoints/epoch-0001/state", "checkpoints/epoch-0003/state"}
    index = Checkpoints.model_validate_json(files["checkpoints/index.json"])
    assert [point.name for point in index.entries] == ["epoch-0001", "epoch-0003"]
    assert files["output/deep/file"] == "result"


def test_script_with_files_named_like_the_trainers_is_fetched_without_them(run_on_head: Path) -> None:
    named_alike = {"config.json": "[]", "results.json": "my results", "checkpoints/index.json": "{'a': 1}"}
    write(run_on_head, named_alike)
    with ssh_stand_in.session() as head:
        collected_files.collect(state.for_cluster("demo"), head, builders.run(id="a", kind="script"))
    assert set(tree(state.for_cluster("demo").runs / "a")) == {"log", "hostfile", "status.json", "output/deep/file"}


def test_newest_checkpoint_of_a_whole_epoch_is_fetched_for_other_ranks(run_on_head: Path) -> None:
    entries = [CheckpointEntry(name=f"epoch-000{n}", epoch=n, step=4 * n, world=4, whole=True) for n in (1, 2, 3)]
    entries.append(CheckpointEntry(name="epoch-0004-step-000014", epoch=4, step=14, world=4, whole=False))
    write(run_on_head / "checkpoints" / entries[-1].name, {"state": "within"})
    Checkpoints(entries=entries, best="epoch-0001").write(run_on_head / "checkpoints" / "index.json")
    fetched = Checkpoints.model_validate_json((collect() / "checkpoints" / "index.json").read_text())
    assert [point.name for point in fetched.entries] == ["epoch-0001", "epoch-0003", "epoch-0004-step-000014"]
    assert choose_checkpoint.newest(fetched, builders.run(id="a"), 2, "demo").name == "epoch-0003"


def test_second_fetch_replaces_the_first(run_on_head: Path) -> None:
    collect()
    (run_on_head / "output" / "deep" / "file").unlink()
    write(run_on_head, {"log": "two\nlines\n", "output/other": "new"})
    files = tree(collect())
    assert files["log"] == "two\nlines\n"
    assert {name for name in files if name.startswith(("output", "."))} == {"output/other"}


def test_run_missing_on_the_cluster_keeps_the_local_copy(run_on_head: Path) -> None:
    before = tree(collect())
    with ssh_stand_in.session() as head:
        collected_files.collect(state.for_cluster("demo"), head, builders.run(id="b"))
    run_on_head.rename(run_on_head.with_name("gone"))
    assert tree(collect()) == before


def test_end_of_a_long_log_is_fetched(
    run_on_head: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fetch_limits, "LOG_BYTES", 1 << 20)
    (run_on_head / "log").write_text("first\n" + "x" * (3 << 20) + "\nlast\n")
    log = tree(collect())["log"]
    assert (len(log), log[-6:]) == (1 << 20, "\nlast\n")
    assert "the last 1 of 3 MiB were fetched" in capsys.readouterr().err


def test_long_log_needs_only_space_for_its_end(run_on_head: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_limits, "LOG_BYTES", 1 << 20)
    monkeypatch.setattr(fetch_limits, "FREE_BYTES", shutil.disk_usage(run_on_head).free - (1 << 32))
    with (run_on_head / "log").open("wb") as log:
        log.truncate(1 << 33)
    assert len(tree(collect())["log"]) == 1 << 20


def test_links_of_a_run_are_reported_as_not_fetched(run_on_head: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run_on_head / "output" / "latest").symlink_to("deep")
    (run_on_head / "output" / "twin").hardlink_to(run_on_head / "output" / "deep" / "file")
    files = tree(collect())
    assert (files["output/twin"], files["output/deep/file"]) == ("result", "result")
    assert "1 links, special or unreadable files were not fetched: output/latest" in capsys.readouterr().err


def on_path(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch, tool: str, script: str) -> None:
    """Replace one tool of the head by a script, in which TOOLS is the search path without it."""
    tools = os.environ["PATH"]
    program = stand_in(tool, f"TOOLS={tools}\n{script}")
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{tools}")


def test_file_that_cannot_be_read_is_reported_and_costs_no_other(
    run_on_head: Path, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on_path(stand_in, monkeypatch, "tar", f'PATH=$TOOLS exec {" ".join(UNPRIVILEGED)} tar "$@"')
    for name in ("none", "new\nline"):
        (run_on_head / "output" / name).touch(0o000)
    files = tree(collect())
    assert (files["output/deep/file"], files["log"]) == ("result", "a line\n")
    assert "2 links, special or unreadable files were not fetched: output/" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("tool", "script", "problem"),
    [
        ("find", "echo \"find: '$1': Input/output error\" >&2; exit 1", "hostfile': Input/output error"),
        ("find", "echo \"find: '$1': Permission denied\" >&2; exit 1", "hostfile': Permission denied"),
        ("cat", 'echo "cat: $1: Stale file handle" >&2; exit 1', "index.json: Stale file handle"),
        ("find", "exit 137", "failed (exit code 137 on demo-head)"),
    ],
)
def test_run_that_cannot_be_listed_is_no_run_of_an_earlier_deployment(
    run_on_head: Path, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch, tool: str, script: str, problem: str
) -> None:
    on_path(
        stand_in, monkeypatch, tool, f'case "$*" in *log*|*index.json*) {script};; esac; PATH=$TOOLS exec {tool} "$@"'
    )
    with pytest.raises(CommandFailed) as caught:
        collect()
    assert problem in caught.value.message
    assert tree(state.for_cluster("demo").runs / "a") == {}


def test_directory_in_output_that_cannot_be_read_costs_no_other_file(
    run_on_head: Path, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path(stand_in, monkeypatch, "find", f'PATH=$TOOLS exec {" ".join(UNPRIVILEGED)} find "$@"')
    (run_on_head / "output" / "closed").mkdir(0o000)
    assert tree(collect())["output/deep/file"] == "result"


def test_run_larger_than_the_local_disk_is_not_fetched(run_on_head: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = tree(collect())
    monkeypatch.setattr(fetch_limits, "FREE_BYTES", 1 << 62)
    with pytest.raises(StateError, match=r"run a left 0.0 GiB, and .* GiB free"):
        collect()
    assert tree(state.for_cluster("demo").runs / "a") == before


def archived(*names: str, size: int = 1) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = size
            archive.addfile(member, io.BytesIO(bytes(size)))
    return stream.getvalue()


def hostile(word: str, output: bytes) -> Answer:
    return lambda command: output if command.startswith(word) else None


@pytest.mark.parametrize("name", ["../../../stolen", "/tmp/stolen", "run.json", "checkpoints/epoch-0002/x", ".saved"])
def test_name_that_was_not_requested_changes_nothing(run_on_head: Path, name: str, tmp_path: Path) -> None:
    before = tree(collect())
    with pytest.raises(ContractError) as caught:
        collect(hostile("tar", archived("log", name)))
    assert f"demo-head sends {name!r}, which was not requested" in caught.value.message
    assert tree(state.for_cluster("demo").runs / "a") == before
    assert list(tmp_path.rglob("stolen")) == []


@pytest.mark.parametrize(
    "index",
    [
        '{"entries": [{"name": "../../../../stolen", "epoch": 1, "step": 1, "world": 1, "whole": true}]}',
        '{"entries": [{"name": "--to-command=sh", "epoch": 1, "step": 1, "world": 1, "whole": true}]}',
        '{"entries": [{"name": "a/b", "epoch": 1, "step": 1, "world": 1, "whole": true}]}',
        '{"entries": [], "best": "../x"}',
        "5",
        "{",
    ],
)
def test_index_with_an_invalid_checkpoint_is_refused(run_on_head: Path, index: str) -> None:
    (run_on_head / "checkpoints" / "index.json").write_text(index)
    with pytest.raises(ContractError, match=r"demo-head: checkpoints/index.json: "):
        collect()


@pytest.mark.parametrize("line", ["5 /etc/passwd", "-5 {}/log", "1_0 {}/log", "\u0665 {}/log", " {}/log", "5"])
def test_listing_with_other_names_or_sizes_is_refused(run_on_head: Path, line: str) -> None:
    with pytest.raises(ContractError, match="lists files of run a that were not requested"):
        collect(hostile(FIND, f"{line.format(run_on_head)}\n".encode()))


def test_file_larger_than_any_result_is_refused(run_on_head: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_limits, "FILE_BYTES", 1000)
    with pytest.raises(ContractError, match="'hostfile' with more than 1000 bytes"):
        collect(hostile("tar", archived("hostfile", size=2000)))


def test_endless_answer_is_not_read_into_memory(run_on_head: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.ssh.channels.ANSWER_BYTES", 1000)
    with pytest.raises(ContractError, match="demo-head sends more than"):
        collect(hostile(FIND, bytes(2000)))


@pytest.mark.parametrize("name", ["../../../../home/user/.ssh", "/etc", "a/b", "..", ".ssh", "", "-rf", "a\n", "é"])
def test_run_id_must_be_a_plain_directory_name(name: str) -> None:
    with pytest.raises(ValidationError, match="id"):
        builders.run(id=name)
    text = builders.run(id="a").model_dump_json().replace('"id":"a"', f'"id":{name!r}'.replace("'", '"'))
    with pytest.raises(ValidationError):
        Run.model_validate_json(text)


def test_units_with_impossible_names_are_refused() -> None:
    with ssh_stand_in.session() as head, pytest.raises(ContractError, match="no run has"):
        fetch_limits.run_ids(["a", "../b"], head)


def test_second_command_waits_for_the_one_that_fetches_the_run(start: Start) -> None:
    target = state.for_cluster("demo").runs / "a"
    with collected_files._fetching(target, 60) as temporary:
        assert temporary.parent == target
        output = target / "said"
        second = start("-c", FETCH, output=output)
        assert waiting.until(lambda: "Waiting for another command that fetches this run" in output.read_text())
        assert "fetching\n" not in output.read_text()
    assert second.wait() == 0
    assert output.read_text().endswith("fetching\n")


def test_files_of_a_killed_fetch_are_removed() -> None:
    target = state.for_cluster("demo").runs / "a"
    (target / ".collecting-abc" / "checkpoints").mkdir(parents=True)
    with collected_files._fetching(target, 60):
        assert not (target / ".collecting-abc").exists()
    assert [path.name for path in target.iterdir()] == [".lock"]


def generation(number: int) -> dict[str, str]:
    """Return the files of a run as of the first or the second fetch."""
    name = f"epoch-000{number}"
    return {f"checkpoints/{name}/state": name, "checkpoints/index.json": name, "log": name}


def kills(start: Start) -> Iterator[int]:
    """Yield exit codes of a command that replaces the first generation, killed one system call later each time."""
    target = state.for_cluster("demo").runs / "a"
    for number in range(100):
        new = target / ".collecting-new"
        write(target, generation(1))
        write(new, generation(2))
        code = start("-c", KILLED, str(number), str(new)).wait()
        yield code
        if code == 0:
            return


def test_kill_at_any_step_leaves_the_old_or_the_new_copy(start: Start) -> None:
    target, state_dir = state.for_cluster("demo").runs / "a", state.for_cluster("demo")
    ends = []
    for code in kills(start):
        assert collected_files.is_resumable(state_dir, builders.run(id="a"))
        with collected_files._fetching(target, 60):  # like the next command
            files = tree(target)
        old, new = generation(1), generation(2)
        assert {n: t for n, t in files.items() if n != "log"} in [
            {n: t for n, t in version.items() if n != "log"} for version in (old, new)
        ]
        assert files["log"] in (old["log"], new["log"])
        ends.append(code)
        for path in [*target.glob("checkpoints/*/*"), *target.glob("checkpoints/*"), target / "checkpoints"]:
            path.rmdir() if path.is_dir() else path.unlink()
    assert ends == [-signal.SIGKILL] * (len(ends) - 1) + [0]
    assert len(ends) > 5


def test_interrupt_between_two_steps_restores_the_old_copy(run_on_head: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = tree(collect())
    replace = Path.replace

    def interrupted(path: Path, target: Path) -> Path:
        if target.name in ("checkpoints", "output"):
            raise KeyboardInterrupt
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", interrupted)
    write(run_on_head, {"checkpoints/epoch-0003/state": "other", "output/deep/file": "other"})
    with pytest.raises(KeyboardInterrupt):
        collect()
    assert tree(state.for_cluster("demo").runs / "a") == before


def test_run_that_ends_during_a_fetch_keeps_its_last_checkpoint(run_on_head: Path) -> None:
    """Its status is not fetched with an older index, so that the next command fetches all of it."""
    (run_on_head / "status.json").unlink()
    index = run_on_head / "checkpoints" / "index.json"

    def ending(command: str) -> bytes | None:
        if not command.endswith("index.json"):
            return None
        before = index.read_bytes()
        entries = [CheckpointEntry(name="epoch-0002", epoch=2, step=2, world=1, whole=True)]
        Checkpoints(entries=entries, best="epoch-0002").write(index)
        STATUS.write(run_on_head / "status.json")
        return before

    assert "status.json" not in tree(collect(ending))
    files = tree(collect())
    assert {"status.json", "checkpoints/epoch-0002/state"} <= set(files)


def test_run_that_was_active_keeps_checkpoints_and_status_for_later(run_on_head: Path) -> None:
    """It may have ended meanwhile: with its status, and without its checkpoints, it would count as fetched."""
    with ssh_stand_in.session() as head:
        collected_files.collect(state.for_cluster("demo"), head, builders.run(id="a"), active=True)
    assert set(tree(state.for_cluster("demo").runs / "a")) == {"log", "hostfile", "output/deep/file"}
    assert {"status.json", "checkpoints/epoch-0003/state"} <= set(tree(collect()))


def test_run_fetched_meanwhile_is_not_fetched_again(run_on_head: Path) -> None:
    """The other command, of a study, removes the checkpoints on the cluster after that."""
    target = state.for_cluster("demo").runs / "a"

    def outpaced(command: str) -> bytes | None:
        if not command.startswith(FIND):
            return b"no archive" if command.startswith("tar") else None
        write(target, {"status.json": (run_on_head / "status.json").read_text()})
        return f"5 {run_on_head}/log\n7 {run_on_head}/checkpoints/epoch-0003/\n".encode()

    assert set(tree(collect(outpaced))) == {"status.json"}


@pytest.mark.parametrize(
    ("name", "limits", "problem"),
    [
        ("output/x", {"MOST_FILES": 1003}, "it has 4 files and directories, at most 3 are fetched"),
        ("output/" + "d/" * 70 + "x", {}, "it has 71 levels of directories, at most 63 are fetched"),
        ("output/" + f"{'n' * 200}/" * 6 + "x", {}, "it has 1,207 bytes in a name, at most 1,017 are fetched"),
        ("output/a\nb", {"MOST_FILES": 1003}, "it has 4 files and directories, at most 3 are fetched"),
    ],
)
def test_excessive_output_is_left_out_with_a_remedy(
    run_on_head: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    name: str, limits: dict[str, int], problem: str,
) -> None:  # fmt: skip
    write(run_on_head, {name: "x", "output/y": "y"} if limits else {name: "x"})
    for limit, value in limits.items():
        monkeypatch.setattr(fetch_limits, limit, value)
    files = tree(collect())
    assert {"log", "status.json", "checkpoints/epoch-0003/state"} <= set(files)
    assert [file for file in files if file.startswith("output")] == []
    message = " ".join(capsys.readouterr().err.split())
    assert f"run a: output/ was not fetched: {problem}: on the head (`orchestrator ssh --cluster demo`) `tar" in message


def test_output_at_the_limits_is_fetched(run_on_head: Path) -> None:
    deep, long = "output/" + "d/" * 62 + "x", "output/" + f"{'n' * 200}/" * 5 + "x" * (1024 - 7 - 5 * 201)
    write(run_on_head, {deep: "deep", long: "long"})
    files = tree(collect())
    assert (files[deep], files[long]) == ("deep", "long")


def test_impossible_numbers_of_files_are_refused(run_on_head: Path) -> None:
    with pytest.raises(ContractError, match="demo-head sends no numbers of files in output/"):
        collect(hostile("sh", b"many\n"))


def upload() -> None:
    with ssh_stand_in.session() as head:
        collected_files.upload_checkpoint(state.for_cluster("demo"), head, builders.run(id="a"))


def test_uploaded_checkpoints_are_those_that_were_fetched(run_on_head: Path) -> None:
    write(run_on_head, {"config.json": "{}"})
    fetched = {name: text for name, text in tree(collect()).items() if name.startswith(("checkpoints/", "config"))}
    shutil.rmtree(run_on_head)
    upload()
    assert tree(run_on_head) == fetched


def test_index_of_checkpoints_that_cannot_be_stored_is_not_uploaded(run_on_head: Path) -> None:
    """Tar goes on to the next file, here after one whose name a directory has; without space it does the same."""
    write(run_on_head, {"config.json": "{}"})
    collect()
    shutil.rmtree(run_on_head)
    write(run_on_head, {"checkpoints/epoch-0003/state/in-the-way": ""})
    with pytest.raises(CommandFailed, match="send files"):
        upload()
    assert not (run_on_head / "checkpoints" / "index.json").exists()
