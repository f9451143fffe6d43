"""`orchestrator cp`: which side is a node, and refusals before data is sent."""

from pathlib import Path

import pytest

from orchestrator.cli import copy_files
from orchestrator.ssh.copying.copy_progress import Copied, Progress
from tests import builders
from tests.unit.conftest import Cli


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


@pytest.mark.parametrize(("sent", "said"), [(0, False), (1, True)])
def test_interrupted_copy_says_that_it_continues_only_if_it_sent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], sent: int, said: bool
) -> None:
    def interrupted(*arguments: object) -> None:
        copying = arguments[-1]
        assert isinstance(copying, Progress)
        copying.count(sent)
        raise KeyboardInterrupt

    monkeypatch.setattr(copy_files, "download", interrupted)
    with pytest.raises(KeyboardInterrupt):
        copy_files.cp("head:a", "b")
    assert ("the same command continues" in capsys.readouterr().err) == said


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("", "./."),
        ("~", "./."),
        ("~/", "./."),
        ("~/a", "./a"),
        ("~//a", "./a"),
        ("a~", "./a~"),
        ("./~b", "././~b"),
        ("/a", "/a"),
    ],
)
def test_tilde_is_the_home_directory(monkeypatch: pytest.MonkeyPatch, path: str, sent: str) -> None:
    targets = list[object]()

    def record(*arguments: object) -> Copied:
        targets.append(arguments[4])
        return Copied()

    monkeypatch.setattr(copy_files, "upload", record)
    copy_files.cp("f", f"head:{path}")
    assert targets == [sent]
