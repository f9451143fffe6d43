"""`orchestrator cp`: which side is a node, refusals before data is sent, and paths on a node."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator import state
from orchestrator.config import Config
from orchestrator.state import Record
from tests import builders
from tests.stand_ins import ssh_stand_in
from tests.stand_ins.ssh_stand_in import Answer
from tests.unit.conftest import Cli, interrupt_commands


@pytest.fixture(autouse=True)
def cluster() -> None:
    builders.deployed()


@pytest.mark.parametrize(
    ("sides", "problem", "remedy"),
    [
        (("a", "b"), "a and b are both on this machine", "as in head:/shared/"),
        (
            ("head:a", "demo-worker-0:b"),
            "head:a and demo-worker-0:b are both on nodes",
            "copy it to this machine first",
        ),
        (("demo-haed:a", "b"), "no node 'demo-haed', did you mean demo-head?", "demo-worker-0"),
        (("./here:1", "head:b"), "here:1: No such file or directory", ""),
        (("/a:b", "head:b"), "/a:b: No such file or directory", ""),
        (("a", "head:~bob/b"), "cp: head:~bob/b: ~bob is not known", "as in head:/home/bob/b; or head:./~bob/b"),
        (("", "head:/shared/"), "cp: the path SRC is empty", "write the working directory as ."),
        (("head:/shared/a", ""), "cp: the path DST is empty", "write the working directory as ."),
    ],
)
def test_impossible_sides_are_refused(cli: Cli, sides: tuple[str, str], problem: str, remedy: str) -> None:
    finished = cli("cp", *sides)
    assert finished.returncode == 2
    assert problem in finished.stderr
    assert remedy in finished.stderr


def test_local_file_named_like_a_node_is_explained(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "data:1").touch()
    finished = cli("cp", "data:1", "head:b")
    assert finished.returncode == 2
    assert "write a file on this machine as ./data:1" in finished.stderr


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory in which the shell of the simulated head starts."""
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path / "home")
    return tmp_path / "home"


@contextmanager
def head(answer: Answer) -> Iterator[None]:
    """Deploy cluster demo, whose head is simulated by this machine's shell."""
    with ssh_stand_in.listening(answer) as (port, host_key):
        state_dir, cluster = ssh_stand_in.deployed(port, host_key)
        config = Config(name="demo", nodes=1).model_dump(mode="json")
        state.write(state_dir, Record(id="1a2b3c4d", config=config, cluster=cluster))
        yield


@pytest.mark.parametrize(("sent", "said"), [(0, False), (1, True)])
def test_interrupted_copy_says_that_it_continues_only_if_it_sent(cli: Cli, home: Path, sent: int, said: bool) -> None:
    (home / "data").mkdir()
    for name in "ab":
        (home / "data" / name).write_text(name)
    reads: list[str] = []

    def interrupt(command: str) -> None:
        reads.extend([command] * ("tail -c" in command))
        if len(reads) > sent:
            interrupt_commands()

    with head(interrupt):
        finished = cli("cp", "head:data", "copy", "--cluster", "demo")
    assert finished.returncode == 130
    kept = "1 of 2 files are in the directory .NAME….part next to the target; the same command continues"
    assert (kept in finished.stderr) == said
    assert ("the same command continues" in finished.stderr) == said


@pytest.mark.parametrize(
    ("path", "written"),
    [
        ("", "f"),
        ("~", "f"),
        ("~/", "f"),
        ("~/a", "a"),
        ("~//a", "a"),
        ("a~", "a~"),
        ("./~b", "~b"),
        ("{home}/a", "a"),
    ],
)
def test_tilde_is_the_home_directory(cli: Cli, tmp_path: Path, home: Path, path: str, written: str) -> None:
    (tmp_path / "f").write_text("content")
    with head(ssh_stand_in.honest):
        finished = cli("cp", "f", f"head:{path.format(home=home)}", "--cluster", "demo")
    assert finished.returncode == 0, finished.stderr
    assert {file.relative_to(home): file.read_text() for file in home.rglob("*")} == {Path(written): "content"}
