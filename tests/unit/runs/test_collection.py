"""Fetching a run: by one command at a time, only what was asked for, never at the cost of an older copy."""

import io
import signal
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from orchestrator import state
from orchestrator.errors import ContractError, StateError
from orchestrator.runs import collection, fetch, launch
from orchestrator.runs.launch import Run
from orchestrator.schema import CheckpointEntry, Checkpoints, RunStatus
from tests import builders, waiting
from tests.stand_ins import ssh_stand_in
from tests.stand_ins.ssh_stand_in import Answer
from tests.unit.conftest import Start

FETCH = """
from orchestrator.runs import collection
from orchestrator import state
with collection._fetching(state.for_cluster("demo").runs / "a", 60):
    print("fetching")
"""
# Replaces what is kept of run a by what is in .collecting-new, and is killed before the system call number argv[1].
KILLED = """
import os, signal, sys
from pathlib import Path
from orchestrator.runs import collection
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
    collection._replace(new / name, target / name)
"""
STATUS = RunStatus(state="finished", exit_code=0, started=1.0, ended=2.0)


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of run a on a head whose shared storage is a directory here, as a run leaves it."""
    monkeypatch.setattr(launch, "SHARED", str(tmp_path / "shared"))
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
        return collection.collect(state.for_cluster("demo"), head, builders.run(id="a"))


def tree(directory: Path) -> dict[str, str]:
    """Every file below, but for the lock."""
    files = (path for path in directory.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(directory)): path.read_text() for path in files}


def test_a_run_is_fetched_with_its_newest_checkpoint_and_its_best(there: Path) -> None:
    files = tree(collect())
    names = {"log", "hostfile", "status.json", "output/deep/file", "checkpoints/index.json"}
    assert set(files) == {*names, "checkpoints/epoch-0001/state", "checkpoints/epoch-0003/state"}
    index = Checkpoints.model_validate_json(files["checkpoints/index.json"])
    assert [point.name for point in index.entries] == ["epoch-0001", "epoch-0003"]
    assert files["output/deep/file"] == "result"


def test_a_run_that_is_fetched_again_is_replaced(there: Path) -> None:
    collect()
    (there / "output" / "deep" / "file").unlink()
    write(there, {"log": "two\nlines\n", "output/other": "new"})
    files = tree(collect())
    assert files["log"] == "two\nlines\n"
    assert {name for name in files if name.startswith(("output", "."))} == {"output/other"}


def test_a_run_that_the_cluster_does_not_have_leaves_what_is_here(there: Path) -> None:
    before = tree(collect())
    with ssh_stand_in.session() as head:
        collection.collect(state.for_cluster("demo"), head, builders.run(id="b"))
    there.rename(there.with_name("gone"))
    assert tree(collect()) == before


def test_of_a_log_that_is_long_the_end_is_fetched(
    there: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fetch, "LOG_BYTES", 1 << 20)
    (there / "log").write_text("first\n" + "x" * (3 << 20) + "\nlast\n")
    log = tree(collect())["log"]
    assert (len(log), log[-6:]) == (1 << 20, "\nlast\n")
    assert "the last 1 of 3 MiB were fetched" in capsys.readouterr().err


def test_links_of_a_run_are_said_not_to_be_fetched(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (there / "output" / "latest").symlink_to("deep")
    (there / "output" / "twin").hardlink_to(there / "output" / "deep" / "file")
    files = tree(collect())
    assert (files["output/twin"], files["output/deep/file"]) == ("result", "result")
    assert "1 links or special files were not fetched: output/latest" in capsys.readouterr().err


def test_a_run_that_does_not_fit_on_this_machine_is_not_begun(there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = tree(collect())
    monkeypatch.setattr(fetch, "FREE_BYTES", 1 << 62)
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
def test_a_head_that_sends_a_name_that_was_not_requested_changes_nothing(
    there: Path, name: str, tmp_path: Path
) -> None:
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
def test_an_index_with_a_checkpoint_that_is_none_is_refused(there: Path, index: str) -> None:
    (there / "checkpoints" / "index.json").write_text(index)
    with pytest.raises(ContractError, match=r"demo-head: checkpoints/index.json: "):
        collect()


def test_a_listing_with_other_names_is_refused(there: Path) -> None:
    with pytest.raises(ContractError, match="lists files of run a that were not requested"):
        collect(hostile("find", b"5 /etc/passwd\n"))


def test_a_file_that_is_larger_than_a_result_can_be_is_refused(there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "FILE_BYTES", 1000)
    with pytest.raises(ContractError, match="'hostfile' with more than 1000 bytes"):
        collect(hostile("tar", archived("hostfile", size=2000)))


def test_an_answer_without_end_is_not_read_into_memory(there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.ssh.channels.ANSWER_BYTES", 1000)
    with pytest.raises(ContractError, match="demo-head sends more than"):
        collect(hostile("find", bytes(2000)))


@pytest.mark.parametrize("name", ["../../../../home/user/.ssh", "/etc", "a/b", "..", ".ssh", "", "-rf", "a\n", "é"])
def test_a_run_has_no_other_name_than_one_that_is_a_directory_of_its_own(name: str) -> None:
    with pytest.raises(ValidationError, match="id"):
        builders.run(id=name)
    text = builders.run(id="a").model_dump_json().replace('"id":"a"', f'"id":{name!r}'.replace("'", '"'))
    with pytest.raises(ValidationError):
        Run.model_validate_json(text)


def test_units_with_names_that_no_run_has_are_refused() -> None:
    with ssh_stand_in.session() as head, pytest.raises(ContractError, match="no run has"):
        fetch.run_ids(["a", "../b"], head)


def test_a_second_command_waits_for_the_one_that_fetches_the_run(start: Start) -> None:
    target = state.for_cluster("demo").runs / "a"
    with collection._fetching(target, 60) as temporary:
        assert temporary.parent == target
        note = target / "said"
        second = start("-c", FETCH, output=note)
        assert waiting.until(lambda: "Waiting for another command that fetches this run" in note.read_text())
        assert "fetching\n" not in note.read_text()
    assert second.wait() == 0
    assert note.read_text().endswith("fetching\n")


def test_what_a_killed_command_had_fetched_of_a_run_is_removed() -> None:
    target = state.for_cluster("demo").runs / "a"
    (target / ".collecting-abc" / "checkpoints").mkdir(parents=True)
    with collection._fetching(target, 60):
        assert not (target / ".collecting-abc").exists()
    assert [path.name for path in target.iterdir()] == [".lock"]


def generation(number: int) -> dict[str, str]:
    """Files of a run as they were fetched the first time, or the second."""
    name = f"epoch-000{number}"
    return {f"checkpoints/{name}/state": name, "checkpoints/index.json": name, "log": name}


def kills(start: Start) -> Iterator[int]:
    """Exit codes of a command that replaces the first generation by the second, killed one system call later each."""
    target = state.for_cluster("demo").runs / "a"
    for number in range(100):
        new = target / ".collecting-new"
        write(target, generation(1))
        write(new, generation(2))
        code = start("-c", KILLED, str(number), str(new)).wait()
        yield code
        if code == 0:
            return


def test_a_kill_at_any_step_leaves_the_old_copy_or_the_new_one(start: Start) -> None:
    target, state_dir = state.for_cluster("demo").runs / "a", state.for_cluster("demo")
    ends = []
    for code in kills(start):
        assert collection.is_resumable(state_dir, builders.run(id="a"))
        with collection._fetching(target, 60):  # as the next command does
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


def test_an_interrupt_between_two_steps_puts_the_old_copy_back(there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = tree(collect())
    replace = Path.replace

    def interrupted(path: Path, target: Path) -> Path:
        if target.name in ("checkpoints", "output"):
            raise KeyboardInterrupt
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", interrupted)
    write(there, {"checkpoints/epoch-0003/state": "other", "output/deep/file": "other"})
    with pytest.raises(KeyboardInterrupt):
        collect()
    assert tree(state.for_cluster("demo").runs / "a") == before
