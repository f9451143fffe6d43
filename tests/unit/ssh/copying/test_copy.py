"""Copies between this machine and a node simulated by its shell: complete, resumed, never outside the target."""

import errno
import os
import resource
import signal
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.errors import ConfigError, ContractError, NodesFailed
from orchestrator.ssh.channels import Unreachable
from orchestrator.ssh.copying import continue_interrupted_copy, copy_progress
from orchestrator.ssh.copying.copy_progress import Copied, Progress
from orchestrator.ssh.copying.download import download
from orchestrator.ssh.copying.file_times import SECOND
from orchestrator.ssh.copying.upload import upload
from orchestrator.ssh.session import Session
from tests.stand_ins import cutting_relay, ssh_stand_in
from tests.stand_ins.ssh_stand_in import Answer

SIZE = 24 << 20
CUTS = [6 << 20, 7 << 20, 5 << 20]  # bytes of each connection
WINDOW = 4 << 20  # bytes that a connection may lose: buffers of sshd and paramiko
TIME = 1_700_000_000_123_456_789  # nanoseconds
Copier = Callable[..., Copied]


@pytest.fixture
def node(tmp_path: Path) -> Path:
    (tmp_path / "node").mkdir()
    return tmp_path / "node"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_progress, "PAUSES", (0.05, 0.05, 0.05))
    monkeypatch.setattr(copy_progress, "SHOW_SECONDS", 0.0)


def through(
    copier: Copier,
    source: object,
    target: object,
    answer: Answer = ssh_stand_in.honest,
    cuts: tuple[int, ...] = (),
    progress: Progress | None = None,
) -> Copied:
    """Copy over connections that break after ``cuts`` bytes."""
    with (
        ssh_stand_in.listening(answer) as (port, host_key),
        cutting_relay.relay_to(port, list(cuts)) as (near, connections),
    ):
        target_node = ssh_stand_in.deployed(near, host_key)
        sides = (source, "demo-head", target) if copier is upload else ("demo-head", source, target)
        copied = copier(*target_node, *sides, progress or Progress())
        assert connections.connections > len(cuts)
        return copied


def write(path: Path, content: bytes, mode: int = 0o640) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)
    return path


def contents(directory: Path) -> dict[str, tuple[int, bytes]]:
    files = (path for path in sorted(directory.rglob("*")) if path.is_file())
    return {str(path.relative_to(directory)): (stat.S_IMODE(path.stat().st_mode), path.read_bytes()) for path in files}


def interrupt_main_thread() -> None:
    """Interrupt the copy as Ctrl-C does, and give it time to end."""
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    threading.Event().wait(0.5)


@pytest.fixture(params=["up", "down"])
def both(request: pytest.FixtureRequest, node: Path, tmp_path: Path) -> tuple[Copier, Path, Path]:
    """Return a copier with its source and target directories."""
    here = tmp_path / "here"
    here.mkdir()
    return (upload, here, node) if request.param == "up" else (download, node, here)


def paths(copier: Copier, source: Path, target: Path, slash: str = "") -> tuple[object, str]:
    return (source if copier is upload else str(source)), f"{target}{slash}"


def test_file_arrives_complete_and_only_the_last_piece_is_resent(both: tuple[Copier, Path, Path]) -> None:
    copier, source, target = both
    content = os.urandom(SIZE)
    write(source / "data", content)
    copied = through(copier, *paths(copier, source / "data", target / "copy"), cuts=tuple(CUTS))
    assert contents(target) == {"copy": (0o640, content)}
    assert SIZE <= copied.sent <= SIZE + len(CUTS) * WINDOW
    assert (target / "copy").stat().st_mtime_ns == (source / "data").stat().st_mtime_ns
    again = through(copier, *paths(copier, source / "data", target / "copy"))
    assert (again.sent, again.same) == (0, 1)


def test_connections_that_break_within_a_piece_are_progress(both: tuple[Copier, Path, Path]) -> None:
    copier, source, target = both
    content = os.urandom(SIZE)
    write(source / "data", content)
    cuts = (continue_interrupted_copy.PIECE // 8,) * 8
    assert len(cuts) > len(copy_progress.PAUSES)
    assert through(copier, *paths(copier, source / "data", target / "copy"), cuts=cuts).sent >= SIZE
    assert contents(target) == {"copy": (0o640, content)}


def test_bytes_that_arrived_before_a_cut_are_counted_once() -> None:
    progress = Progress()
    progress.begin_file(10)  # which an earlier command copied
    progress.count(4)
    progress.begin_file(17)  # three bytes of the next piece arrived
    assert progress.copied.sent == 7
    progress.begin_file(0)  # they were damaged
    progress.count(20)
    assert progress.copied.sent == 27
    progress.complete("a")
    progress.begin_file(5)
    assert progress.copied.sent == 27


def test_later_command_continues_an_unfinished_copy(both: tuple[Copier, Path, Path]) -> None:
    copier, source, target = both
    content = os.urandom(SIZE)
    write(source / "data", content)
    with pytest.raises(NodesFailed) as caught:
        through(copier, *paths(copier, source / "data", target / "copy"), cuts=(8 << 20, *[2000] * 9))
    assert "run the same command again" in caught.value.hint
    [part] = target.iterdir()
    assert part.name.startswith(".copy.")
    present = part.stat().st_size
    assert present > 1 << 20
    assert through(copier, *paths(copier, source / "data", target / "copy")).sent == SIZE - present
    assert contents(target) == {"copy": (0o640, content)}


def test_interrupted_copy_keeps_its_part_for_the_next(both: tuple[Copier, Path, Path]) -> None:
    copier, source, target = both
    write(source / "data", os.urandom(SIZE))

    def interrupt(text: str) -> None:
        if int(text.split(maxsplit=1)[0]) > SIZE >> 21:
            raise KeyboardInterrupt

    progress = Progress(interrupt)
    with pytest.raises(KeyboardInterrupt):
        through(copier, *paths(copier, source / "data", target / "copy"), progress=progress)
    part = "the copied part stays in a file .NAME….part next to the target"
    assert progress.kept() == f"{part}; the same command continues"
    assert [path.name[:6] for path in target.iterdir()] == [".copy."]
    assert through(copier, *paths(copier, source / "data", target / "copy")).sent < SIZE
    assert contents(target) == {"copy": (0o640, (source / "data").read_bytes())}


def test_interrupted_copy_of_small_files_says_how_many_are_kept(both: tuple[Copier, Path, Path]) -> None:
    copier, source, target = both
    for name in "abc":
        write(source / "tree" / name, b"x")

    def interrupt(text: str) -> None:
        if text.startswith("1 of"):
            raise KeyboardInterrupt

    progress = Progress(interrupt)
    with pytest.raises(KeyboardInterrupt):
        through(copier, *paths(copier, source / "tree", target), progress=progress)
    assert progress.kept() == "1 of 3 files are in place; the same command continues"
    assert list(contents(target)) == ["tree/a"]


def interrupted_copy(copier: Copier, source: Path, target: Path) -> str:
    """Interrupt the copy of a tree of three files after its first file, and return what it keeps."""
    for name in "abc":
        write(source / name, name.encode())

    def interrupt(text: str) -> None:
        if text.startswith("1 of"):
            raise KeyboardInterrupt

    progress = Progress(interrupt)
    with pytest.raises(KeyboardInterrupt):
        through(copier, *paths(copier, source, target), progress=progress)
    return progress.kept()


def test_interrupted_copy_to_a_new_directory_is_continued(both: tuple[Copier, Path, Path]) -> None:
    copier, source, target = both
    kept = interrupted_copy(copier, source / "tree", target / "copy")
    assert kept == "1 of 3 files are in the directory .NAME….part next to the target; the same command continues"
    [part] = target.iterdir()
    assert (part.name.startswith(".copy."), list(contents(part))) == (True, ["a"])
    copied = through(copier, *paths(copier, source / "tree", target / "copy"))
    assert (copied.target, copied.same) == (str(target / "copy"), 1)
    assert [path.name for path in target.iterdir()] == ["copy"]
    assert contents(target / "copy") == {name: (0o640, name.encode()) for name in "abc"}


def test_continued_copy_has_only_what_the_source_has(both: tuple[Copier, Path, Path]) -> None:
    copier, source, target = both
    interrupted_copy(copier, source / "tree", target / "copy")
    [part] = target.iterdir()
    for name in ("b", "gone"):  # as if they were copied, too
        write(part / name / "old" if name == "gone" else part / name, b"old")
    (source / "tree" / "a").unlink()
    write(source / "tree" / "a" / "inner", b"x")  # a file became a directory
    through(copier, *paths(copier, source / "tree", target / "copy"))
    assert {name: content for name, (_, content) in contents(target / "copy").items()} == {
        "a/inner": b"x",
        "b": b"b",
        "c": b"c",
    }


def test_directory_takes_no_unfinished_copy_of_another_source(both: tuple[Copier, Path, Path]) -> None:
    copier, source, target = both
    interrupted_copy(copier, source / "tree", target / "copy")
    write(source / "other" / "d", b"d")
    through(copier, *paths(copier, source / "other", target / "copy"))
    assert contents(target / "copy") == {"d": (0o640, b"d")}


def test_unfinished_directory_of_the_same_name_stops_no_file(both: tuple[Copier, Path, Path]) -> None:
    copier, source, target = both
    interrupted_copy(copier, source / "tree", target / "copy")
    write(source / "file", b"x")
    through(copier, *paths(copier, source / "file", target / "copy"))
    assert (target / "copy").read_bytes() == b"x"


@pytest.mark.parametrize("taken", ["file", "link"])
def test_directory_never_replaces_a_file_or_a_link(both: tuple[Copier, Path, Path], taken: str) -> None:
    copier, source, target = both
    write(source / "tree" / "a", b"x")
    (target / "copy").symlink_to("gone") if taken == "link" else write(target / "copy", b"kept")
    with pytest.raises(ConfigError):
        through(copier, *paths(copier, source / "tree", target / "copy"))
    assert (target / "copy").is_symlink() or (target / "copy").read_bytes() == b"kept"
    assert [path.name for path in target.iterdir()] == ["copy"]  # it is refused before a file is sent


def test_upload_whose_last_answer_is_lost_is_complete(
    tmp_path: Path, node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose_answer(session: Session, progress: Progress) -> None:
        os.rename(progress.root, progress.copied.target)  # noqa: PTH104
        raise Unreachable("connection broke")

    monkeypatch.setattr("orchestrator.ssh.copying.upload._rename", lose_answer)
    write(tmp_path / "tree" / "a", b"x")
    copied = through(upload, tmp_path / "tree", str(node / "new"))
    assert (copied.target, contents(node)) == (str(node / "new"), {"new/a": (0o640, b"x")})


def test_copy_interrupted_before_the_first_file_says_nothing(both: tuple[Copier, Path, Path]) -> None:
    copier, source, target = both
    write(source / "data", b"x")

    def answer(command: str) -> None:
        if "sum" in command:
            interrupt_main_thread()

    progress = Progress()
    with pytest.raises(KeyboardInterrupt):
        through(copier, *paths(copier, source / "data", target / "copy"), answer, progress=progress)
    assert progress.kept() == ""


def test_progress_counts_files_if_there_are_several(both: tuple[Copier, Path, Path]) -> None:
    copier, source, target = both
    for name in "abc":
        write(source / "tree" / name, b"" if name == "a" else b"x")
    shown = list[str]()
    through(copier, *paths(copier, source / "tree", target), progress=Progress(shown.append))
    assert list(dict.fromkeys(shown))[-3:] == ["1 of 3 files", "2 of 3 files", "3 of 3 files"]
    write(source / "tree" / "big", os.urandom(2 << 20))
    through(copier, *paths(copier, source / "tree", target), progress=Progress(shown.append))
    assert shown[-1] == "2 of 2 MiB, 4 of 4 files"


@pytest.mark.parametrize("damage", ["source", "part"])
def test_changed_source_or_damaged_part_starts_over(both: tuple[Copier, Path, Path], damage: str) -> None:
    copier, source, target = both
    write(source / "data", os.urandom(SIZE))
    with pytest.raises(NodesFailed):
        through(copier, *paths(copier, source / "data", target / "copy"), cuts=(8 << 20, *[2000] * 9))
    [part] = target.iterdir()
    if damage == "source":
        write(source / "data", os.urandom(SIZE - 1))
    else:
        with part.open("r+b") as file:
            file.write(b"damaged")
    copied = through(copier, *paths(copier, source / "data", target / "copy"))
    assert copied.sent == copied.bytes
    assert contents(target) == {"copy": (0o640, (source / "data").read_bytes())}


def test_unfinished_copy_with_a_long_name_is_removed_once_its_source_changed(both: tuple[Copier, Path, Path]) -> None:
    copier, source, target = both
    name = "n" * 220
    write(source / name, os.urandom(SIZE))
    with pytest.raises(NodesFailed):
        through(copier, *paths(copier, source / name, target), cuts=(8 << 20, *[2000] * 9))
    assert len(list(target.iterdir())) == 1
    write(source / name, b"changed")
    through(copier, *paths(copier, source / name, target))
    assert contents(target) == {name: (0o640, b"changed")}


def test_tree_is_copied_with_modes_odd_names_and_inner_links(both: tuple[Copier, Path, Path]) -> None:
    copier, source, target = both
    tree = source / "tree"
    write(tree / "a", b"a", 0o755)
    write(tree / "sub" / "b \n'$\"", b"b")
    write(tree / "sub" / "-n", b"")
    (tree / "empty").mkdir(mode=0o750)
    (tree / "again").symlink_to("sub")
    (tree / "sub" / "round").symlink_to("..")
    (tree / "out").symlink_to("/etc/passwd")
    (tree / "nothing").symlink_to("gone")
    os.mkfifo(tree / "pipe")
    copied = through(copier, *paths(copier, tree, target))
    odd = "b \n'$\""
    expected = {"a": (0o755, b"a"), f"sub/{odd}": (0o640, b"b"), "sub/-n": (0o640, b"")}
    expected |= {f"again/{odd}": (0o640, b"b"), "again/-n": (0o640, b"")}
    assert contents(target / "tree") == expected
    assert stat.S_IMODE((target / "tree" / "empty").stat().st_mode) == 0o750
    assert sorted(copied.left_out) == ["nothing", "out", "pipe"]
    write(tree / "a", b"other", 0o755)
    assert through(copier, *paths(copier, tree, target)).same == len(expected) - 1
    assert contents(target / "tree")["a"] == (0o755, b"other")


def test_trailing_slash_copies_into_a_directory(both: tuple[Copier, Path, Path]) -> None:
    copier, source, target = both
    write(source / "data", b"x")
    through(copier, *paths(copier, source / "data", target / "new", "/"))
    through(copier, *paths(copier, source / "data", target / "other" / "name"))
    assert sorted(contents(target)) == ["new/data", "other/name"]


def test_unusable_paths_are_refused(both: tuple[Copier, Path, Path]) -> None:
    copier, source, target = both
    write(source / "tree" / "a", b"x")
    (target / "tree" / "a").mkdir(parents=True)
    with pytest.raises(ConfigError, match="is a directory, not a file"):
        through(copier, *paths(copier, source / "tree", target))
    with pytest.raises(ConfigError, match=r"(?i)no such file or directory"):
        through(copier, *paths(copier, source / "none", target))


@pytest.mark.parametrize(
    ("path", "remedy"),
    [
        ("/proc/cpuinfo", "cat /proc/cpuinfo > cpuinfo`"),
        ("/sys/kernel/mm", "cat /sys/kernel/mm/FILE > FILE`"),
        ("link", "/link > link`"),
    ],
)
def test_files_of_the_kernel_are_refused_with_a_command_that_reads_them(
    both: tuple[Copier, Path, Path], path: str, remedy: str
) -> None:
    copier, source, target = both
    (source / "link").symlink_to("/proc/cpuinfo")
    with pytest.raises(ConfigError, match="the kernel makes its content when it is read") as caught:
        through(copier, *paths(copier, source / path, target))
    assert caught.value.hint.endswith(remedy)
    assert ("`orchestrator ssh --cluster demo demo-head -- cat" in caught.value.hint) == (copier is download)
    assert list(target.iterdir()) == []


def test_files_that_do_not_fit_are_refused_before_sending(
    both: tuple[Copier, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    copier, source, target = both
    with (source / "huge").open("wb") as file:
        file.truncate(1 << 42)
    with pytest.raises(ConfigError, match="no space left"):
        through(copier, *paths(copier, source / "huge", target / "copy"))
    assert list(target.iterdir()) == []


def test_files_in_place_need_no_room(both: tuple[Copier, Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    copier, source, target = both
    write(source / "tree" / "small", b"x")
    write(target / "tree" / "huge", b"")
    for path in (source / "tree" / "huge", target / "tree" / "huge"):
        with path.open("wb") as file:
            file.truncate(1 << 42)
        os.utime(path, ns=(TIME, TIME))
    copied = through(copier, *paths(copier, source / "tree", target))
    assert (copied.same, copied.sent) == (1, 1)
    monkeypatch.setattr(continue_interrupted_copy, "FREE_BYTES", 1 << 60)
    assert through(copier, *paths(copier, source / "tree", target)).same == 2


@pytest.mark.parametrize(
    ("modified", "same"),
    [(TIME, 1), (TIME - 1, 0), (TIME // 100 * 100, 1), (TIME // SECOND * SECOND, 1), (TIME - SECOND, 0)],
)
def test_times_are_compared_as_precisely_as_both_sides_keep_them(
    both: tuple[Copier, Path, Path], modified: int, same: int
) -> None:
    copier, source, target = both
    os.utime(write(source / "data", b"new"), ns=(TIME, TIME))
    os.utime(write(target / "data", b"old"), ns=(modified, modified))
    assert through(copier, *paths(copier, source / "data", target)).same == same
    assert (target / "data").read_bytes() == (b"old" if same else b"new")


@pytest.mark.parametrize("time", [-SECOND // 2, -5 * SECOND // 4, -SECOND, -1])
def test_times_before_1970_are_kept_and_compared(both: tuple[Copier, Path, Path], time: int) -> None:
    copier, source, target = both
    os.utime(write(source / "data", b"x"), ns=(time, time))
    for same in (0, 1):
        assert through(copier, *paths(copier, source / "data", target)).same == same
        assert (target / "data").stat().st_mtime_ns == time


def test_changed_mode_is_applied_without_sending_the_file(both: tuple[Copier, Path, Path]) -> None:
    copier, source, target = both
    for name in "ab":
        write(source / "tree" / name, b"x", 0o640)
    through(copier, *paths(copier, source / "tree", target))
    (source / "tree" / "a").chmod(0o755)
    copied = through(copier, *paths(copier, source / "tree", target))
    assert (copied.same, copied.sent) == (2, 0)
    assert contents(target / "tree") == {"a": (0o755, b"x"), "b": (0o640, b"x")}


@pytest.mark.parametrize("moment", ["stat --dereference", "dd of="])
@pytest.mark.parametrize("mode", ["ab", "r+b"])
def test_local_file_that_changes_during_the_copy_is_an_error(
    tmp_path: Path, node: Path, moment: str, mode: str
) -> None:
    file = write(tmp_path / "data", os.urandom(SIZE))

    def answer(command: str) -> None:
        if moment in command:
            with file.open(mode) as changed:
                changed.write(b"more")

    with pytest.raises(ConfigError, match="data: arrived damaged, or changed meanwhile"):
        through(upload, file, str(node / "copy"), answer)
    assert not (node / "copy").exists()


def test_names_of_any_bytes_are_copied(both: tuple[Copier, Path, Path]) -> None:
    copier, source, target = both
    names = [os.fsdecode(name) for name in (b"caf\xe8", b"caf\xe9", b"end\n")]
    for name in names:
        write(source / "tree" / name, os.fsencode(name))
    through(copier, *paths(copier, source / "tree", target))
    assert contents(target / "tree") == {name: (0o640, os.fsencode(name)) for name in names}


def test_links_that_lead_to_themselves_are_left_out(both: tuple[Copier, Path, Path]) -> None:
    copier, source, target = both
    write(source / "tree" / "a", b"a")
    for link, to in (("self", "self"), ("one", "other"), ("other", "one")):
        (source / "tree" / link).symlink_to(to)
    copied = through(copier, *paths(copier, source / "tree", target))
    assert list(contents(target / "tree")) == ["a"]
    assert sorted(copied.left_out) == ["one", "other", "self"]


def test_link_to_itself_in_the_target_is_one_error(tmp_path: Path, node: Path) -> None:
    write(node / "tree" / "sub" / "file", b"x")
    (tmp_path / "here" / "tree").mkdir(parents=True)
    (tmp_path / "here" / "tree" / "sub").symlink_to("sub")
    with pytest.raises(ConfigError, match="here/tree/sub"):
        through(download, str(node / "tree"), str(tmp_path / "here"))


def test_local_directories_nested_too_deep_are_refused(tmp_path: Path, node: Path) -> None:
    (tmp_path / "a").joinpath(*"a" * 65).mkdir(parents=True)
    with pytest.raises(ConfigError, match="nested more than 64 deep") as caught:
        through(upload, tmp_path / "a", str(node))
    assert "tar" in caught.value.hint


def modes(directory: Path) -> dict[str, int]:
    return {path.name[:5]: stat.S_IMODE(path.stat().st_mode) for path in directory.rglob("*")}


def test_only_the_owner_may_read_an_unfinished_copy(both: tuple[Copier, Path, Path]) -> None:
    copier, source, target = both
    write(source / "tree" / "sub" / "data", os.urandom(SIZE), 0o644)
    (target / "other").mkdir()
    sides = paths(copier, source / "tree", target / "new", "/")
    with pytest.raises(NodesFailed):
        through(copier, *sides, cuts=(8 << 20, *[2000] * 9))
    ordinary = modes(target)["other"]
    assert modes(target / "new") == {"tree": 0o700, "sub": 0o700, ".data": 0o600}
    through(copier, *sides)
    assert modes(target) == {"other": ordinary, "new": ordinary, **modes(source)}


def test_modes_that_are_right_are_not_set_again(both: tuple[Copier, Path, Path]) -> None:
    copier, source, target = both
    write(source / "tree" / "sub" / "data", b"x")
    through(copier, *paths(copier, source / "tree", target))
    changed = {path: path.stat().st_ctime_ns for path in target.rglob("*")}
    through(copier, *paths(copier, source / "tree", target))
    assert {path: path.stat().st_ctime_ns for path in target.rglob("*")} == changed


def test_used_up_disk_quota_of_a_node_is_named_with_a_remedy(
    tmp_path: Path, node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = write(
        tmp_path / "bin" / "dd", b"#!/bin/sh\necho dd: error writing: Disk quota exceeded >&2; exit 1\n", 0o755
    )
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    with pytest.raises(ConfigError, match="cannot be written: dd: error writing: Disk quota exceeded") as caught:
        through(upload, write(tmp_path / "data", b"x"), str(node))
    assert "larger disk quota" in caught.value.hint


def test_local_file_that_cannot_grow_is_named_with_a_remedy(tmp_path: Path, node: Path) -> None:
    write(node / "data", os.urandom(SIZE))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 20, limits[1]))
    try:
        with pytest.raises(ConfigError, match="data: File too large") as caught:
            through(download, str(node / "data"), str(tmp_path / "data"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "ulimit -f" in caught.value.hint


def test_path_that_cannot_be_looked_at_has_its_own_reason(tmp_path: Path, node: Path) -> None:
    write(node / "data", b"x")
    with pytest.raises(ConfigError, match="data/x: Not a directory"):
        through(download, str(node / "data" / "x"), str(tmp_path))


@pytest.mark.parametrize(
    ("command", "output"), [("stat --dereference", b"x\0y\0z\0w\0"), ("df --output", b"Avail\n-\n")]
)
def test_answer_of_a_node_in_another_form_names_the_node(
    tmp_path: Path, node: Path, command: str, output: bytes
) -> None:
    def answer(line: str) -> bytes | None:
        return output if command in line else None

    with pytest.raises(ContractError, match="demo-head"):
        through(upload, write(tmp_path / "data", b"x"), str(node / "copy"), answer)


ROOT = ["/x", "d", "755", "4096", "1.5", ""]  # a directory in a node's listing


def listed(*fields: str) -> bytes:
    return "\0".join([*fields, ""]).encode()


@pytest.mark.parametrize(
    "names", ["../evil", "/etc/evil", "a/../../evil", "a/", "a//b", "./a", "x" * 2000, "/".join("a" * 70)]
)
def test_listed_names_never_lead_out_of_the_target(tmp_path: Path, names: str) -> None:
    def answer(command: str) -> bytes | None:
        if "find -H" in command:
            return listed(*ROOT, "f", "644", "5", "1.5", names)
        return b"" if "test -e" in command else b"evil!"

    (tmp_path / "here").mkdir()
    with pytest.raises(ContractError, match="in another form"):
        through(download, "/x", str(tmp_path / "here" / "new"), answer)
    assert list(tmp_path.rglob("*evil*")) == []


def test_target_in_a_directory_that_may_not_be_read_is_refused(
    tmp_path: Path, node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_dir = Path.is_dir

    def forbidden(path: Path) -> bool:
        if path.name == "copy":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return is_dir(path)

    write(node / "data", b"x")
    monkeypatch.setattr(Path, "is_dir", forbidden)
    with pytest.raises(ConfigError, match="copy: Permission denied"):
        through(download, str(node / "data"), str(tmp_path / "copy"))


def test_links_in_the_target_are_not_followed(tmp_path: Path, node: Path) -> None:
    write(node / "tree" / "sub" / "file", b"x")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "here" / "tree").mkdir(parents=True)
    (tmp_path / "here" / "tree" / "sub").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="is a link"):
        through(download, str(node / "tree"), str(tmp_path / "here"))
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize(("sent", "kind"), [(b"x" * 200, ContractError), (b"12345" + b"0" * 64 + b"\n", ConfigError)])
def test_node_that_sends_more_or_other_data_leaves_no_file(tmp_path: Path, sent: bytes, kind: type[Exception]) -> None:
    def answer(command: str) -> bytes | None:
        if "find -H" in command:
            return listed("/x", "f", "644", "5", "1.5", "")
        return sent if "tail" in command else b""

    with pytest.raises(kind):
        through(download, "/x", str(tmp_path / "here"), answer)
    assert not (tmp_path / "here").exists()


@pytest.mark.parametrize("name", ["tree", "tree/sub/file"])
def test_download_that_fails_before_the_first_byte_leaves_nothing(tmp_path: Path, node: Path, name: str) -> None:
    file = write(node / "tree" / "sub" / "file", b"x")

    def answer(command: str) -> None:
        if "tail" in command:
            file.unlink()

    (tmp_path / "here").mkdir()
    with pytest.raises(ConfigError, match="No such file or directory"):
        through(download, str(node / name), str(tmp_path / "here" / "new" / "copy"), answer)
    assert list((tmp_path / "here").iterdir()) == []


def test_download_interrupted_before_the_first_byte_leaves_nothing(tmp_path: Path, node: Path) -> None:
    write(node / "file", b"x")

    def answer(command: str) -> None:
        if "tail" in command:
            interrupt_main_thread()

    (tmp_path / "here").mkdir()
    with pytest.raises(KeyboardInterrupt):
        through(download, str(node / "file"), str(tmp_path / "here"), answer)
    assert list((tmp_path / "here").iterdir()) == []
