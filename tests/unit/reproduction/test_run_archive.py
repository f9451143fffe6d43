"""Archives of runs: equal bytes for equal files, and refusal of other archives."""

import gzip
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from orchestrator.errors import ConfigError
from orchestrator.reproduction import run_archive
from tests.unit.reproduction import cases

FILES = {"run.json": b"{}", "code/train.py": b"print()\n", "log": b"line\n"}


def test_equal_files_give_equal_bytes_and_are_read_unchanged(tmp_path: Path) -> None:
    for name in ("one", "two"):
        files = dict(reversed(FILES.items())) if name == "two" else FILES
        run_archive.write(files, tmp_path / name, 7, frozenset(FILES))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    with run_archive.unpacked(tmp_path / "one") as directory:
        assert {name: (directory / name).read_bytes() for name in FILES} == FILES
    assert not directory.exists()


def test_other_tools_read_it(tmp_path: Path) -> None:
    run_archive.write(FILES, tmp_path / "run.tar.gz", 7, frozenset({"code/train.py"}))
    with tarfile.open(tmp_path / "run.tar.gz") as packed:
        assert {f"{run_archive.ROOT}/{name}" for name in [*FILES, run_archive.SUMS]} == set(packed.getnames())
        member = packed.getmember(f"{run_archive.ROOT}/code/train.py")
        assert (member.mode, member.mtime, member.uid) == (0o755, 7, 0)


@pytest.mark.parametrize("name", ["a\nb\\c", "a\rb", "a\x0cb", "a\u2028b", "a\udcffb", "a\\b", " a  b"])
def test_checksums_of_odd_file_names_are_read_here_and_by_sha256sum(tmp_path: Path, name: str) -> None:
    files = {**FILES, f"code/{name}": b"x"}
    run_archive.write(files, tmp_path / "run.tar.gz", 7)
    with run_archive.unpacked(tmp_path / "run.tar.gz") as directory:
        assert (directory / "code" / name).read_bytes() == b"x"
        checked = subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=directory, capture_output=True, check=True)
    assert checked.stdout.count(b": OK\n") == len(files)


def test_unwritable_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--output: .+No such file or directory"):
        run_archive.write(FILES, tmp_path / "nowhere" / "run.tar.gz", 7)


def refused(path: Path) -> str:
    with pytest.raises(ConfigError) as caught, run_archive.unpacked(path):
        pass
    return caught.value.message


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is no exported run: empty file"),
        (b"words", "Not a gzipped file"),
        (gzip.compress(b"words" * 1000), "is no exported run"),
        (cases.packed([("run.json", b"{}")]), "run.tar.gz: is no exported run: it has no SHA256SUMS"),
        (cases.packed([("run.json", b"{}"), ("SHA256SUMS", b"")]), "'run.json' does not match SHA256SUMS"),
        (cases.packed([("SHA256SUMS", b"0  log\n")]), "'log' does not match SHA256SUMS"),
        (cases.packed([("log", b"x"), ("SHA256SUMS", b"0  log\n")]), "'log' does not match SHA256SUMS"),
        (cases.packed([("SHA256SUMS", b"0  \xff\n")]), "'\\udcff' does not match SHA256SUMS"),
        (cases.packed([("../escaped", b"x")]), "which was not requested"),
        (cases.packed([("code/../../escaped", b"x")]), "which was not requested"),
        (cases.packed([("unknown", b"x")]), "which was not requested"),
        (cases.packed([("log", b"x"), ("log", b"y")]), "twice"),
        (cases.packed([("run.json", bytes(run_archive.LIMITS["run.json"] + 1))]), "with more than"),
        (cases.packed([("log", bytes(100_000))])[:60], "is no exported run"),
        (cases.packed([("code/link", b"")], tarfile.SYMTYPE, "/etc/passwd"), "'orchestrator-run/code/link' is a link"),
    ],
    # Compressed bytes contain the time, but all processes of a test run must agree on the names of tests.
    ids=lambda value: value if isinstance(value, str) else "archive",
)
def test_other_archives_are_refused_and_leave_no_file(tmp_path: Path, content: bytes, problem: str) -> None:
    (tmp_path / "run.tar.gz").write_bytes(content)
    assert problem in refused(tmp_path / "run.tar.gz")
    assert [path.name for path in tmp_path.iterdir()] == ["run.tar.gz"]


def test_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    small = cases.packed([(f"code/{number}", bytes(1 << 20)) for number in range(140)])
    assert len(small) < 1 << 20
    (tmp_path / "run.tar.gz").write_bytes(small)
    assert "'orchestrator-run/code/' with more than" in refused(tmp_path / "run.tar.gz")


def test_pipe_directory_or_missing_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "is a pipe, not a file" in refused(tmp_path / "pipe")
    assert "is a directory, not a file" in refused(tmp_path)
    assert "No such file" in refused(tmp_path / "nothing")


def test_archive_behind_a_link_is_replaced_and_the_link_stays(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target")
    run_archive.write(FILES, tmp_path / "link", 7)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").stat().st_size > 0


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
@pytest.mark.parametrize("name", ["log", "code/extra"])
def test_whole_run_with_a_link_or_device_is_refused(tmp_path: Path, kind: bytes, name: str) -> None:
    run_archive.write({"run.json": b"{}"}, tmp_path / "whole.tar.gz", 7)
    whole, odd = (
        gzip.decompress((tmp_path / "whole.tar.gz").read_bytes()),
        cases.packed([(name, b"")], kind, "run.json"),
    )
    members = whole.rstrip(b"\0")  # without the blocks that end it
    members += bytes(-len(members) % tarfile.BLOCKSIZE)
    (tmp_path / "run.tar.gz").write_bytes(gzip.compress(members + gzip.decompress(odd)))
    assert f"'orchestrator-run/{name}' is a link or a device, not a file" in refused(tmp_path / "run.tar.gz")


def test_directories_of_git_are_refused(tmp_path: Path) -> None:
    """Git's settings in it could name programs, which git then starts on this machine."""
    (tmp_path / "run").write_bytes(cases.packed([("code/sub/.git/config", b"[filter]")]))
    assert "'orchestrator-run/code/sub/.git' belongs to git" in refused(tmp_path / "run")
