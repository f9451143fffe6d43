"""JPEG and PNG files: the marks that they begin and end with, the largest that are decoded, and damaged ones."""

import io
import os
import struct
from pathlib import Path
from typing import BinaryIO

from orchestrator.trainer.data import bounded_reading

# First and last bytes. One file of ImageNet, n02105855_2933.JPEG, is a PNG.
JPEG_START, JPEG_END = b"\xff\xd8", b"\xff\xd9"
PNG_START, PNG_END = b"\x89PNG\r\n\x1a\n", b"IEND"
FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}  # markers of frames; the others are tables
MAX_SEGMENTS = 1000  # before the frame
MAX_BYTES, MAX_PIXELS = 256 << 20, 89_478_485  # of an image; Pillow warns of a decompression bomb above


def fault(path: Path) -> "str | None":
    """Return why the file is no JPEG or PNG that can be decoded, by its first and last bytes; None if it may be."""
    with bounded_reading.open_file(path) as file:
        start = file.read(len(PNG_START))
        if not start.startswith((JPEG_START, PNG_START)):
            return f"{path}: not a JPEG or PNG"
        width, height = _png_shape(file) if start == PNG_START else _jpeg_shape(file)
        whole = _has_near_end(file, PNG_END) if start == PNG_START else _has_jpeg_end(file)
    if not whole:
        return f"{path}: truncated {'PNG' if start == PNG_START else 'JPEG'}"
    if width * height > MAX_PIXELS:
        return f"{path}: {width}x{height} pixels, at most {MAX_PIXELS:,} are decoded"
    return None


def _has_near_end(file: BinaryIO, mark: bytes) -> bool:
    file.seek(-min(os.fstat(file.fileno()).st_size, 64), io.SEEK_END)
    return mark in file.read()


def _has_jpeg_end(file: BinaryIO) -> bool:
    """Look for the end of a JPEG whose frame's header has been read: phones append data of any size to it.

    Coded pixels cannot contain the end's marker, and an embedded preview comes before the header.
    """
    header_end = file.tell()
    if _has_near_end(file, JPEG_END):
        return True
    file.seek(header_end)
    return JPEG_END in file.read(MAX_BYTES)


def _png_shape(file: BinaryIO) -> tuple[int, int]:
    chunk = file.read(16)  # length, name, width and height
    return struct.unpack(">8xII", chunk) if len(chunk) == 16 and chunk[4:8] == b"IHDR" else (0, 0)


def _jpeg_shape(file: BinaryIO) -> tuple[int, int]:
    """Read up to the frame's header, and return its width and height (ITU-T T.81, B.2.2).

    Without a header at its place, read to the end of the file and return zeros.
    """
    file.seek(len(JPEG_START))
    for _ in range(MAX_SEGMENTS):
        header = file.read(9)
        if len(header) < 9 or header[0] != 0xFF:
            break
        if header[1] == 0xFF:  # fills space before a marker (B.1.1.2)
            file.seek(1 - len(header), io.SEEK_CUR)
            continue
        if header[1] in FRAMES:
            height, width = struct.unpack(">HH", header[5:])
            return width, height
        file.seek(int.from_bytes(header[2:4], "big") + 2 - len(header), io.SEEK_CUR)
    file.seek(0, io.SEEK_END)
    return 0, 0
