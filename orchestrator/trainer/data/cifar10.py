"""CIFAR-10 in its binary version (https://www.cs.toronto.edu/~kriz/cifar.html): an archive, or its unpacked files."""

from collections.abc import Iterator
from pathlib import Path

from orchestrator.trainer.data import bounded_reading
from orchestrator.trainer.data.inspection import DataError, DatasetFiles

RECORD = 1 + 3 * 32 * 32  # bytes: a label and three planes
MAX_BYTES = 1 << 30  # of all files together: five times the published size


def members(directory: Path) -> "Iterator[tuple[str, bytes]]":
    """Yield names and contents of the .bin files of CIFAR-10, from its archive or the directory it unpacks to."""
    remaining = MAX_BYTES
    for path in _files(directory):
        if path.suffix == ".gz":
            for name, content in bounded_reading.tar_files(path, ".bin", MAX_BYTES):
                yield Path(name).name, content
        else:
            content = bounded_reading.content(path, remaining)
            remaining -= len(content)
            yield path.name, content


def _files(directory: Path) -> list[Path]:
    """Return the first archive, if there is one, else the unpacked files."""
    folder = directory / "cifar-10-batches-bin"
    archives = sorted(directory.glob("cifar-10-binary*.tar.gz"))
    return archives[:1] or sorted((folder if folder.is_dir() else directory).glob("[!.]*.bin"))  # macOS adds ._NAME.bin


def inspect(directory: Path) -> DatasetFiles:
    counts = {"data": 0, "test": 0}
    for name, content in members(directory):
        labels = content[::RECORD]
        if len(content) % RECORD or not labels or max(labels) > 9:
            raise DataError(f"{directory}: {name} is truncated or not CIFAR-10 (records of {RECORD} bytes)")
        if name.split("_")[0] not in counts:
            raise DataError(f"{directory}: {name} is not a file of CIFAR-10")
        counts[name.split("_")[0]] += len(labels)
    if not (counts["data"] and counts["test"]):
        raise DataError(f"{directory}: no CIFAR-10 here: cifar-10-binary.tar.gz or data_batch_*.bin and test_batch.bin")
    files = [str(path.relative_to(directory)) for path in _files(directory)]
    return DatasetFiles(files, counts["data"], counts["test"])
