"""Hostile files of data sets: one message with the file name, in little memory and time."""

import gzip
import json
import os
import struct
import subprocess
import sys
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.errors import ConfigError
from orchestrator.runs import datasets
from orchestrator.trainer.data import (
    bounded_reading,
    cifar10,
    image_files,
    inspect_dataset,
    mnist,
    sdss,
    tfrecord_format,
)
from orchestrator.trainer.data.inspection import DataError
from tests import samples
from tests.unit.trainer.test_inspect_tfrecord import WHOLE, framed, write

IMAGES, ARCHIVE, TABLE, JPEG = "t10k-images-idx3-ubyte.gz", "cifar-10-binary.tar.gz", "sky.csv", "train/n01/a.JPEG"
SHARD = "train-00000-of-00002"
GIB = 1 << 30
Make = Callable[[Path], object]


def bomb(start: bytes, size: int = 4 * GIB) -> bytes:
    """Return a gzip file of ``start`` and ``size`` zeros, which repeats one flushed piece of a MiB."""

    def piece(content: bytes) -> bytes:
        packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
        return packer.compress(content) + packer.flush(zlib.Z_FULL_FLUSH)

    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + piece(start) + piece(bytes(1 << 20)) * (size >> 20)


def member(name: str, size: int = 0, kind: bytes = tarfile.REGTYPE, link: str = "") -> bytes:
    """Return a header of a tar archive."""
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = size, kind, link
    return info.tobuf(tarfile.GNU_FORMAT)


def idx(count: int) -> bytes:
    return struct.pack(">IIII", mnist.IDX_IMAGES, count, 28, 28)


def jpeg(width: int, height: int) -> bytes:
    """Return start and end of a JPEG with a comment and a frame of this size."""
    frame = struct.pack(">BHHB", 8, height, width, 3) + bytes(9)
    return b"\xff\xd8\xff\xfe\0\x04hi\xff\xc2" + struct.pack(">H", len(frame) + 2) + frame + image_files.JPEG_END


def png(width: int, height: int) -> bytes:
    return image_files.PNG_START + struct.pack(">I4sII", 13, b"IHDR", width, height) + image_files.PNG_END


def write_valid(dataset: str, directory: Path) -> None:
    """Write a valid data set."""
    if dataset == "mnist":
        samples.mnist(directory, {"t10k": 1200})
    elif dataset == "cifar10":
        samples.cifar(directory)
    elif dataset == "sdss":
        samples.table(directory / TABLE, [samples.sky(number) for number in range(40)])
    elif dataset == "records":
        write(directory, WHOLE)
    else:
        samples.imagenet(directory, {JPEG: samples.JPEG, "val/n01/b.JPEG": samples.JPEG})


FILES = {"mnist": IMAGES, "cifar10": ARCHIVE, "sdss": TABLE, "imagenet": JPEG, "records": SHARD}


def refusal(dataset: str, directory: Path) -> str:
    """Return the refusal of a data set: one short line with the file name."""
    with pytest.raises(DataError) as caught:
        inspect_dataset.inspect("imagenet" if dataset == "records" else dataset, directory)
    output = str(caught.value)
    assert output.startswith(str(directory))
    assert len(output.splitlines()) == 1
    assert len(output) < len(str(directory)) + 400
    return output


ANOTHER_THING: dict[str, tuple[Make, str]] = {
    "a pipe": (os.mkfifo, "pipe|not a regular file"),
    "a directory": (Path.mkdir, "directory|not a regular file"),
    "an endless device": (lambda path: path.symlink_to("/dev/zero"), "device|not a regular file"),
    "a loop of links": (lambda path: path.symlink_to(path), "symbolic links|not a regular file"),
    "a link to nothing": (lambda path: path.symlink_to("nowhere"), "No such file|not a regular file"),
}


@pytest.mark.parametrize("dataset", FILES)
@pytest.mark.parametrize("kind", ANOTHER_THING)
def test_special_files_are_refused_at_once(tmp_path: Path, dataset: str, kind: str) -> None:
    write_valid(dataset, tmp_path)
    make, problem = ANOTHER_THING[kind]
    (tmp_path / FILES[dataset]).unlink()
    make(tmp_path / FILES[dataset])
    output = refusal(dataset, tmp_path)
    assert FILES[dataset] in output
    assert any(word in output for word in problem.split("|"))


HARM: dict[str, list[tuple[str, Callable[[], bytes], str]]] = {
    "mnist": [
        ("zeros", lambda: bomb(b""), "not an idx file"),
        ("longer than its header", lambda: bomb(idx(1200)), "bytes or more, its header says 940800"),
        ("a header to fit", lambda: bomb(idx(5_478_274)), "expected at most 536,870,912"),
        ("2^32 images", lambda: gzip.compress(idx(2**32 - 1)), "expected at most 536,870,912"),
        ("many parts", lambda: gzip.compress(b"") * 2000, "more than 1000 parts"),
        ("cut in the header", lambda: gzip.compress(idx(1))[:14], "truncated or not gzip (it ends too early)"),
        ("another's end", lambda: gzip.compress(samples.images_idx(1200)) + b"<html>", "truncated or not gzip"),
    ],
    "cifar10": [
        ("zeros", lambda: bomb(b""), "bytes follow the end of the archive"),
        ("a large file", lambda: bomb(member("data_batch_1.bin", 4 * GIB)), "expected at most 1,073,741,824"),
        ("a large other file", lambda: bomb(member("readme.html", 4 * GIB)), "expected at most 1,073,741,824"),
        ("a large header", lambda: bomb(member("x", 8 * GIB, tarfile.XHDTYPE)), "expected at most 1,073,741,824"),
        ("many members", lambda: gzip.compress(member("x") * 2000), "more than 1000 members"),
        ("less than nothing", lambda: gzip.compress(member("x", -512)), "expected at most"),
        ("a cut member", lambda: gzip.compress(member("test_batch.bin", 3073) + bytes(9)), "it ends inside a file"),
        ("a cut header", lambda: gzip.compress(member("test_batch.bin")[:300]), "truncated or not a tar.gz"),
        ("no end", lambda: gzip.compress(member("x")), "truncated or not a tar.gz"),
        ("a changed header", lambda: gzip.compress(b"x" + member("test_batch.bin")[1:]), "truncated or not a tar.gz"),
        *(
            (
                f"a member of kind {kind!r}",
                lambda kind=kind: gzip.compress(member("a.bin", 0, kind, "a.bin")),
                "not a regular file",
            )
            for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.GNUTYPE_SPARSE)
        ),
    ],
    "sdss": [
        ("no end of a line", lambda: b"u" * (2 << 20), "row 1: more than 1,048,576 characters"),
        ("no end of a cell", lambda: b'u,"' + b"x\n" * 200_000, "not a table in CSV (field larger"),
        ("NUL", lambda: b"u,g,r,i,z,redshift,class\n1,2,3,4,5,\0,STAR\n", "row 2, column redshift: '\\x00'"),
        ("UTF-16", lambda: "u,g,r,i,z,redshift,class\n".encode("utf-16"), "not a table in CSV ('utf-8'"),
        ("columns twice", lambda: b"u,g,r,i,z,redshift,class,u\n", "row 1: column u occurs more than once"),
        ("more cells", lambda: b"u,g,r,i,z,redshift,class\n1,2,3,4,5,6,STAR,7\n", "row 2: 8 cells, expected 7"),
        ("a long class", lambda: b"u,g,r,i,z,redshift,class\n1,2,3,4,5,6," + b"S" * 99_999, "is none of STAR"),
        ("a long number", lambda: b"u,g,r,i,z,redshift,class\n" + b"1" * 99_999 + b",2,3,4,5,6,STAR", "measurement"),
    ],
    "imagenet": [
        ("a bomb", lambda: jpeg(65_500, 65_500), "65500x65500 pixels, at most 89,478,485"),
        ("a PNG bomb", lambda: png(2**31 - 1, 2**31 - 1), "2147483647x2147483647 pixels"),
        ("nothing", lambda: b"", "not a JPEG"),
        ("segments without end", lambda: b"\xff\xd8" + b"\xff\xe0\0\x02" * 5000, "truncated JPEG"),
    ],
    "records": [
        ("an absurd length", lambda: header(2**63), "it ends inside the record at byte 0"),
        ("many records", lambda: framed(b"x") * 99, "expected at most 50 records"),
        ("zeros", lambda: bytes(1000), "no TFRecord at byte 0"),
    ],
}


def header(length: int) -> bytes:
    packed = struct.pack("<Q", length)
    return packed + struct.pack("<I", tfrecord_format.masked_crc(packed)) + bytes(100)


@pytest.mark.parametrize(
    ("dataset", "content", "problem"),
    [
        pytest.param(dataset, content, problem, id=f"{dataset}-{name}")
        for dataset, cases in HARM.items()
        for name, content, problem in cases
    ],
)
def test_hostile_file_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, dataset: str, content: Callable[[], bytes], problem: str
) -> None:
    if dataset == "records":
        monkeypatch.setattr(tfrecord_format, "MAX_RECORDS", 50)
    write_valid(dataset, tmp_path)
    (tmp_path / FILES[dataset]).write_bytes(content())
    assert problem in refusal(dataset, tmp_path)


def test_rows_of_all_tables_are_limited(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_valid("sdss", tmp_path)
    monkeypatch.setattr(sdss, "MAX_ROWS", 40)
    assert inspect_dataset.inspect("sdss", tmp_path).train == 36
    monkeypatch.setattr(sdss, "MAX_ROWS", 39)
    assert "the tables have more than 39 rows" in refusal("sdss", tmp_path)


def test_large_records_are_refused_without_reading_them(tmp_path: Path) -> None:
    write_valid("records", tmp_path)
    (tmp_path / SHARD).write_bytes(header(2 * GIB))
    os.truncate(tmp_path / SHARD, 2 * GIB + tfrecord_format.FRAME)
    assert "the record at byte 0 has 2,147,483,648 bytes" in refusal("records", tmp_path)


def test_unpacked_bytes_are_limited(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("data_batch_1.bin", "test_batch.bin"):
        (tmp_path / name).write_bytes(samples.cifar_records(2))
    monkeypatch.setattr(cifar10, "MAX_BYTES", 3 * cifar10.RECORD)
    assert "test_batch.bin: 6,146 bytes, expected at most 3,073" in refusal("cifar10", tmp_path)


def test_joined_and_padded_gzip_is_read(tmp_path: Path) -> None:
    content, good_idx = samples.images_idx(1200), tmp_path / "i.gz"
    good_idx.write_bytes(gzip.compress(content[:100]) + gzip.compress(content[100:]) + bytes(99))
    assert mnist.read_idx(good_idx, mnist.IDX_IMAGES) == ([1200, 28, 28], content[16:])


def test_names_that_are_not_utf_8_are_refused(tmp_path: Path) -> None:
    write_valid("imagenet", tmp_path)
    (tmp_path / "train" / "n01" / "a\udcff.JPEG").write_bytes(samples.JPEG)
    assert "the name of 'train/n01/a\\udcff.JPEG' is not UTF-8" in refusal("imagenet", tmp_path)


@pytest.mark.parametrize(
    ("dataset", "start"),
    [("mnist", idx(1200)), ("cifar10", member("data_batch_1.bin", 4 * GIB))],
    ids=["mnist", "cifar10"],
)
def test_bombs_are_refused_in_little_memory(tmp_path: Path, dataset: str, start: bytes) -> None:
    write_valid(dataset, tmp_path)
    (tmp_path / FILES[dataset]).write_bytes(bomb(start))
    limit = f"import resource as r, runpy, sys; r.setrlimit(r.RLIMIT_AS, ({GIB}, {GIB})); sys.argv[:] = sys.argv[1:]; "
    program = (
        limit + "runpy.run_module('orchestrator.trainer.data.inspect_dataset', run_name='__main__', alter_sys=True)"
    )
    command = [sys.executable, "-c", program, "formats", dataset, str(tmp_path)]
    output = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    assert str(tmp_path / FILES[dataset]) in json.loads(output)["error"]


def test_error_names_the_problem_and_the_remedy(tmp_path: Path) -> None:
    write_valid("sdss", tmp_path)
    (tmp_path / TABLE).unlink()
    os.mkfifo(tmp_path / TABLE)
    with pytest.raises(ConfigError) as caught:
        datasets.find("sdss", tmp_path, lambda _: None)
    assert caught.value.exit_code == 2
    assert caught.value.message == f"train.data: {tmp_path / TABLE}: is a pipe, not a file"
    assert "orchestrator datasets" in caught.value.hint


def test_file_on_a_failing_disk_is_named() -> None:
    with pytest.raises(DataError, match=r"/proc/self/mem: Input/output error"):
        bounded_reading.content(Path("/proc/self/mem"), 1)
