"""Bounded reading of a data set's files, which may be truncated downloads, HTML pages or decompression bombs.

Standard library only: the control side runs it before it sends anything.
"""

import io
import os
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from orchestrator import untrusted_files
from orchestrator.trainer.data.inspection import DataError

CHUNK = 4 << 20  # bytes read at a time: a small file is one piece, which needs no joining
BLOCK = 512  # bytes of a tar header, and multiple to which members are padded
MAX_PARTS = 1000  # of an archive: gzip members, files of a tar
GZIP = 16 + zlib.MAX_WBITS  # zlib reads gzip's header and checksum


def open_file(path: Path) -> io.BufferedReader:
    """Open a regular file.

    Raises:
        DataError: There is none, or it may not be read.
    """
    try:
        return untrusted_files.open_regular(path)
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from None


def content(path: Path, limit: int) -> bytes:
    """Return the content of a file.

    Raises:
        DataError: It cannot be read or has more than ``limit`` bytes.
    """
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            raise DataError(f"{path}: {size:,} bytes, expected at most {limit:,}")
        try:
            return file.read(limit)
        except OSError as error:
            raise DataError(f"{path}: {error.strerror}") from None


class GzipReader:
    """Content of a gzip file, unpacked as requested: it may be a thousand times the size of the file."""

    def __init__(self, file: BinaryIO, path: Path, kind: str = "gzip") -> None:
        self._file, self._path, self._kind = file, path, kind
        self._part, self._packed, self._parts = zlib.decompressobj(GZIP), b"", 1

    def read(self, size: int) -> bytes:
        """Return the next ``size`` bytes, fewer at the end.

        Raises:
            DataError: They are damaged or truncated.
        """
        pieces: list[bytes] = []
        while size > 0 and (piece := self._next(size)):
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def _next(self, most: int) -> bytes:
        while not self._part.eof or self._begin():
            packed = self._packed or self._file.read(CHUNK)
            try:
                piece = self._part.decompress(packed, most)
            except zlib.error as error:
                raise self._damaged(str(error)) from None
            self._packed = self._part.unconsumed_tail
            if piece:
                return piece
            if not packed and not self._part.eof:
                raise self._damaged("it ends too early")
        return b""

    def _begin(self) -> bool:
        """Begin the next part, if there is one: gzip files may be joined, and padded with zeros."""
        packed = (self._part.unused_data or self._file.read(CHUNK)).lstrip(b"\0")
        if not packed:
            return False
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise self._damaged(f"more than {MAX_PARTS} parts")
        self._part, self._packed = zlib.decompressobj(GZIP), packed
        return True

    def _damaged(self, reason: str) -> DataError:
        return DataError(f"{self._path}: truncated or not {self._kind} ({reason})")


def tar_files(path: Path, suffix: str, limit: int) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the files in a .tar.gz whose names end in ``suffix``.

    Only headers and these contents are held in memory.

    Args:
        path: The archive.
        suffix: End of the wanted names.
        limit: Bytes of all members together, unpacked.

    Raises:
        DataError: A wanted member is not a regular file, or the archive is damaged or exceeds ``limit``.
    """
    with open_file(path) as file:
        source, total = GzipReader(file, path, "a tar.gz"), 0
        for _ in range(MAX_PARTS):
            member = _header(source.read(BLOCK), path)
            if member is None:
                return _require_end(source, path)
            total += member.size
            if not 0 <= member.size <= total <= limit:
                raise DataError(
                    f"{path}: {member.name!r} makes it {total:,} bytes unpacked, expected at most {limit:,}"
                )
            padded = member.size + -member.size % BLOCK
            if not member.name.endswith(suffix):
                _skip(source, padded if _has_content(member) else 0, path)
                continue
            if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
                raise DataError(f"{path}: {member.name!r} is not a regular file")
            yield member.name, _read_exactly(source, member.size, path)
            _skip(source, padded - member.size, path)
        raise DataError(f"{path}: more than {MAX_PARTS} members: not the published archive")


def _header(block: bytes, path: Path) -> "tarfile.TarInfo | None":
    """Return the member that a header describes, None at the end of the archive."""
    if block == bytes(BLOCK):
        return None
    try:
        return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except (tarfile.TarError, ValueError) as error:
        raise DataError(f"{path}: truncated or not a tar.gz ({error})") from None


def _has_content(member: tarfile.TarInfo) -> bool:
    return member.isreg() or member.type not in tarfile.SUPPORTED_TYPES or member.type in _EXTENDED_HEADERS


_EXTENDED_HEADERS = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE,
                     tarfile.SOLARIS_XHDTYPE)  # fmt: skip


def _read_exactly(source: GzipReader, size: int, path: Path) -> bytes:
    content = source.read(size)
    if len(content) < size:
        raise DataError(f"{path}: truncated or not a tar.gz (it ends inside a file)")
    return content


def _skip(source: GzipReader, size: int, path: Path) -> None:
    while size > 0:
        size -= len(_read_exactly(source, min(size, CHUNK), path))


def _require_end(source: GzipReader, path: Path) -> None:
    """Check that only padding follows the end; reading it also verifies the checksum."""
    if source.read(CHUNK).strip(b"\0") or source.read(1):
        raise DataError(f"{path}: bytes follow the end of the archive")
