"""Archives of a hostile node: only requested regular files are written, below the target."""

import io
import tarfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from orchestrator.ssh import unpack_tar
from orchestrator.ssh.unpack_tar import Refused

LIMITS = {"log": 1000, "output/": 1000}
Member = tuple[tarfile.TarInfo, bytes]


def entry(name: str, content: bytes = b"content", kind: bytes = tarfile.REGTYPE, link: str = "") -> Member:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, link
    member.size = len(content) if kind == tarfile.REGTYPE else 0
    return member, content


def archive(members: Iterable[Member], form: int = tarfile.GNU_FORMAT) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form) as written:
        for member, content in members:
            written.addfile(member, io.BytesIO(content) if member.isreg() else None)
    return stream.getvalue()


def unpack(target: Path, *members: Member) -> list[str]:
    target.mkdir()
    return unpack_tar.unpack(io.BytesIO(archive(members)), LIMITS, target)


def files_below(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if not path.is_dir())


def test_requested_files_are_written(tmp_path: Path) -> None:
    assert unpack(tmp_path / "run", entry("log"), entry("output/model/weights", b"w")) == []
    assert (tmp_path / "run" / "log").read_bytes() == b"content"
    assert (tmp_path / "run" / "output" / "model" / "weights").read_bytes() == b"w"


@pytest.mark.parametrize(
    "name",
    [
        *("../stolen", "output/../../stolen", "output/../log", "./../stolen", "output/./x", "output//x", "./log"),
        *(
            "/log",
            "../runaway/stolen",
            ".ssh/authorized_keys",
            "run.json",
            "log/x",
            "output",
            "",
            "output/" + "d/" * 99,
        ),
        *("output/" + "n" * 2000, "outputs/x"),
    ],
)
def test_name_that_was_not_requested_is_refused_by_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(Refused, match="which was not requested") as caught:
        unpack(tmp_path / "run", entry(name))
    assert repr(name.rstrip("/")[:100])[1:-1] in str(caught.value)
    assert files_below(tmp_path) == []


def test_absolute_name_outside_the_target_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="stolen"):
        unpack(tmp_path / "run", entry(str(tmp_path / "stolen")))
    assert files_below(tmp_path) == []


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_links_and_special_files_are_left_out_and_named(tmp_path: Path, kind: bytes) -> None:
    assert unpack(tmp_path / "run", entry("output/x", kind=kind, link="/etc/passwd")) == ["output/x"]
    assert files_below(tmp_path) == []


def test_file_does_not_follow_a_link_that_was_sent_before(tmp_path: Path) -> None:
    unpack(tmp_path / "run", entry("output/x", kind=tarfile.SYMTYPE, link=str(tmp_path)), entry("output/x/log"))
    assert files_below(tmp_path) == ["run/output/x/log"]


@pytest.mark.parametrize("link", ["out", "out/deeper"])
def test_existing_link_is_not_followed(tmp_path: Path, link: str) -> None:
    existing = tmp_path / "run" / "output" / link
    existing.parent.mkdir(parents=True)
    existing.symlink_to(tmp_path)
    with pytest.raises(Refused, match=r"through a link|twice"):
        unpack_tar.unpack(io.BytesIO(archive([entry(f"output/{link}/stolen")])), LIMITS, tmp_path / "run")
    with pytest.raises(Refused, match="twice"):
        unpack_tar.unpack(io.BytesIO(archive([entry(f"output/{link}")])), LIMITS, tmp_path / "run")
    assert list(tmp_path.rglob("stolen")) == []


def test_file_that_is_sent_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="'log' twice"):
        unpack(tmp_path / "run", entry("log"), entry("log"))


def test_too_many_bytes_are_refused_before_they_are_written(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="'output/' with more than 1000 bytes"):
        unpack(tmp_path / "run", entry("output/a", b"a" * 600), entry("output/b", b"b" * 600))
    assert files_below(tmp_path) == ["run/output/a"]


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpack_tar, "MOST_FILES", 3)
    with pytest.raises(Refused, match="or 3 files"):
        unpack(tmp_path / "run", *(entry(f"output/{number}", b"") for number in range(4)))


def test_sparse_file_that_unpacks_to_more_is_refused(tmp_path: Path) -> None:
    member, _ = entry("log", b"")
    header = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    header[156:157] = tarfile.GNUTYPE_SPARSE
    header[483:495] = b"00000002000\0"  # its real size
    header[148:156] = b"%06o\0 " % (sum(header[:148]) + 8 * ord(" ") + sum(header[156:512]))
    (tmp_path / "run").mkdir()
    with pytest.raises(Refused, match="'log' as a sparse file"):
        unpack_tar.unpack(io.BytesIO(bytes(header) + bytes(1024)), LIMITS, tmp_path / "run")


def test_endless_header_is_not_read_into_memory(tmp_path: Path) -> None:
    member = tarfile.TarInfo("name")
    member.type, member.size = tarfile.XHDTYPE, 1 << 40

    class Endless(io.RawIOBase):
        sent, first = 0, member.tobuf(tarfile.GNU_FORMAT)

        def read(self, size: int = -1) -> bytes:
            piece, self.first = self.first or bytes(size), b""
            self.sent += len(piece)
            return piece

    pipe = Endless()
    with pytest.raises(Refused, match="headers without end"):
        unpack_tar.unpack(pipe, LIMITS, tmp_path)
    assert pipe.sent < 2 * unpack_tar.HEADER_BYTES


@pytest.mark.parametrize("cut", [1, 100, 511, 512, 513, 1000])
def test_truncated_archive_is_damaged(tmp_path: Path, cut: int) -> None:
    whole = archive([entry("log", b"x" * 900)])
    with pytest.raises(tarfile.ReadError):
        unpack_tar.unpack(io.BytesIO(whole[:cut]), LIMITS, tmp_path)


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_changed_header_byte_causes_no_other_error(tmp_path: Path, form: int) -> None:
    whole = archive([entry("output/" + "n" * 150), entry("log")], form)
    for position in range(512):
        for value in (0x80, 0xFF):
            header = bytearray(whole)
            header[position] = value
            header[148:156] = b"%06o\0 " % (sum(header[:148]) + 8 * ord(" ") + sum(header[156:512]))
            target = tmp_path / f"{position}-{value}"
            target.mkdir()
            try:
                unpack_tar.unpack(io.BytesIO(bytes(header)), LIMITS, target)
            except (Refused, tarfile.ReadError):
                continue
