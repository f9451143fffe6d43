"""Write the files of an image to a compressed archive, for nodes without the Docker Engine."""

from collections.abc import Callable
from pathlib import Path

import zstandard

from orchestrator.docker import images
from orchestrator.docker.engine import Engine
from orchestrator.errors import PreflightError
from orchestrator.schema.atomic_write import replaced

# Compared with gzip, nodes unpack it in a sixth of the time, and a fifth less crosses the uplink.
COMPRESSOR = zstandard.ZstdCompressor(level=3, threads=-1)


def write(engine: Engine, tag: str, path: Path, on_bytes: Callable[[int], None] = lambda _: None) -> None:
    """Write the files of an image to a tar archive compressed with zstd, atomically and readable by its owner alone.

    Args:
        engine: Docker Engine that has the image.
        tag: Tag of the image.
        path: File to write.
        on_bytes: Called with the number of bytes done, before compression.

    Raises:
        CommandFailed: The engine cannot export the image.
        PreflightError: The file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with replaced(path, 0o600) as file, COMPRESSOR.stream_writer(file, closefd=False) as compressed:
            done = 0
            for piece in images.export(engine, tag):
                done += compressed.write(piece)
                on_bytes(done)
    except OSError as error:
        raise PreflightError(f"{error.filename or path}: {error.strerror}", f"free space in {path.parent}") from error
