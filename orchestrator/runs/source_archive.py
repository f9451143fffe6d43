"""Keep a copy of a script's code with its run: the directory may change, and the cluster may be removed."""

import gzip
import io
import tarfile
from pathlib import Path

from orchestrator.runs import sent_files
from orchestrator.runs.run_record import Run
from orchestrator.runs.script import Source
from orchestrator.schema.atomic_write import replaced
from orchestrator.state import StateDir, usable

FILE = "source.tar.gz"
MOST = 64 << 20  # bytes; more is no code


def packed(source: Source) -> bytes | None:
    """Return the files of a script as an archive; None if they are too large to keep. Raises ConfigError."""
    if source.size > MOST:
        return None
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive, sent_files.readable():
        for name, path in sorted(source.files.items()):
            add(archive, name, path.read_bytes(), executable=bool(path.stat().st_mode & 0o100))
    return gzip.compress(content.getvalue(), compresslevel=1, mtime=0)


def add(archive: tarfile.TarFile, name: str, content: bytes, executable: bool = False, time: int = 0) -> None:
    """Add a file to an archive so that equal content gives equal bytes.

    Args:
        archive: Archive that is written.
        name: Name in the archive.
        content: Content of the file.
        executable: Whether the file can be executed.
        time: Time of the file, unix seconds.
    """
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.mtime = len(content), 0o755 if executable else 0o644, time
    archive.addfile(member, io.BytesIO(content))


def keep(state_dir: StateDir, run: Run, content: bytes | None) -> None:
    """Write a copy from :func:`packed` to the directory of ``run``."""
    if content is not None:
        path: Path = state_dir.runs / run.id / FILE
        with usable(path):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with replaced(path, 0o600) as file:
                file.write(content)
