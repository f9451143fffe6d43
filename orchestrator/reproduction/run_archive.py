"""Archive of a run: equal files give equal bytes. Reading trusts nothing: names, sizes and kinds have limits."""

import gzip
import hashlib
import io
import os
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from orchestrator import untrusted_files
from orchestrator.config import output_file
from orchestrator.errors import ConfigError
from orchestrator.runs import checksums, source_archive
from orchestrator.runs.fetch_limits import FILE_BYTES, LOG_BYTES
from orchestrator.schema import bounded_files
from orchestrator.schema.bounded_files import Unreadable
from orchestrator.ssh.unpack_tar import Refused, unpack

ROOT, SUMS, CODE, SERIES = "orchestrator-run", "SHA256SUMS", "code/", "metrics/"
FILES = (
    *("README.txt", "CITATION.cff", "run.json", "provenance.json", "config.json", "packages.json", "status.json"),
    *("results.json", "results.csv", "check.json", "autotune.csv", SUMS),
)
LIMITS = {
    **dict.fromkeys(FILES, FILE_BYTES),
    "log": LOG_BYTES,
    checksums.FILE: checksums.MOST,
    CODE: 2 * source_archive.MOST,
    "output/": FILE_BYTES,
    SERIES: 256 << 20,
}
ODD = (Refused, tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error)
MAKES = "`orchestrator export RUN` makes one"


def write(files: Mapping[str, bytes], path: Path, time: int, executable: frozenset[str] = frozenset()) -> None:
    """Write an archive of ``files``, with their checksums.

    Args:
        files: Contents by name in the archive.
        path: File to write.
        time: Time of all members, unix seconds.
        executable: Names of the files that can be executed.

    Raises:
        ConfigError: The file cannot be written.
    """
    sums = b"".join(_sum(name, content) + b"\n" for name, content in sorted(files.items()))
    content = io.BytesIO()
    packed = gzip.GzipFile(fileobj=content, mode="wb", filename="", mtime=0)
    with packed, tarfile.open(fileobj=packed, mode="w") as archive:
        for name, data in sorted({**files, SUMS: sums}.items()):
            source_archive.add(archive, f"{ROOT}/{name}", data, name in executable, time)
    output_file.write(content.getvalue(), path, "--output")


def _sum(name: str, content: bytes) -> bytes:
    """Return the line of a file as sha256sum writes it; a backslash begins the line of a name with a line break."""
    digest, text = hashlib.sha256(content).hexdigest().encode(), os.fsencode(name)
    if b"\n" in text:
        digest, text = b"\\" + digest, text.replace(b"\\", b"\\\\").replace(b"\n", b"\\n")
    return digest + b"  " + text


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """Unpack an archive into a directory that goes when the block ends.

    Raises:
        ConfigError: It cannot be read, is larger than allowed, has members that no exported run has, or was changed.
    """
    with TemporaryDirectory(prefix="orchestrator-rerun-") as temporary:
        try:
            with untrusted_files.open_regular(path) as file, gzip.GzipFile(fileobj=file) as pipe:
                limits = {f"{ROOT}/{name}": most for name, most in LIMITS.items()}
                left_out = unpack(pipe, limits, Path(temporary), executable=True)
            if left_out:
                raise Refused(f"{bounded_files.shown(left_out[0])} is a link or a device, not a file")
            _refuse_repositories(Path(temporary))
            _require_whole(Path(temporary) / ROOT)
        except ODD as error:
            raise ConfigError([f"{path}: is no exported run: {error or 'it is cut short'}"], MAKES) from error
        except Unreadable as error:
            raise ConfigError([f"{path}: {error.reason}"], MAKES) from error
        except OSError as error:
            raise ConfigError([f"{error.filename or path}: {error.strerror or error}"], MAKES) from error
        yield Path(temporary) / ROOT


def _refuse_repositories(directory: Path) -> None:
    """Refuse git's directories, whose settings may name programs that git then starts on this machine."""
    for path in directory.rglob("*"):
        if path.name.lower() == ".git":
            raise Refused(f"{bounded_files.shown(str(path.relative_to(directory)))} belongs to git")


def _require_whole(directory: Path) -> None:
    """Compare every file with its checksum. Raises Unreadable."""
    if not (directory / SUMS).is_file():
        raise Unreadable(SUMS, f"is no exported run: it has no {SUMS}")
    listed = {*bounded_files.read_bytes(directory / SUMS).split(b"\n")} - {b""}
    files = {str(path.relative_to(directory)): path for path in directory.rglob("*") if path.is_file()}
    files.pop(SUMS)
    wrong = listed ^ {_sum(name, path.read_bytes()) for name, path in files.items()}
    if wrong:
        name = os.fsdecode(min(line.partition(b"  ")[2] for line in wrong))
        raise Unreadable(SUMS, f"damaged or changed: {bounded_files.shown(name)} does not match {SUMS}")
