"""Inspection of published data sets: the content of a directory, and whether it is complete.

Run as ``python -m orchestrator.trainer.data.inspect_dataset DATASET DIRECTORY [skip]``: prints a JSON object, either
``{"files": [...], "train": n, "test": n, "note": "..."}`` with paths relative to the directory, or
``{"error": "...", "damaged": ...}``. If only samples are ``damaged``, that is no error with ``skip``.
Standard library only: the control side runs it before it sends anything.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

from orchestrator.trainer.data import cifar10, imagenet, mnist, sdss
from orchestrator.trainer.data.inspection import Damaged, DataError, DatasetFiles

INSPECTORS: dict[str, Callable[[Path], DatasetFiles]] = {
    "mnist": mnist.inspect,
    "fashion_mnist": partial(mnist.inspect, name="Fashion-MNIST"),
    "cifar10": cifar10.inspect,
    "sdss": sdss.inspect,
    "imagenet": imagenet.inspect,
}


def inspect(dataset: str, directory: Path) -> DatasetFiles:
    """Return the files and the size of ``dataset`` in ``directory``.

    Raises:
        DataError: It is missing, empty, truncated or another data set.
    """
    try:
        _require_content(directory)
        info = INSPECTORS[dataset](directory)
        _require_names(directory, info)
        return info
    except OSError as error:  # permissions, or a failing disk
        raise DataError(f"{error.filename or directory}: {error.strerror or error}") from None


def _require_content(directory: Path) -> None:
    if directory.is_file():
        raise DataError(f"{directory} is a file: name the directory it is in")
    if not directory.is_dir():
        raise DataError(f"{directory}: no such directory")
    if not any(directory.iterdir()):
        raise DataError(f"{directory}: empty")


def _require_names(directory: Path, info: DatasetFiles) -> None:
    """Check that names are UTF-8, since they travel in JSON and over ssh."""
    try:
        "".join(info.files).encode()
    except UnicodeEncodeError as error:
        name = next(name for name in info.files if error.object[error.start] in name)
        raise DataError(f"{directory}: the name of {name!a} is not UTF-8: rename it") from None


def main(dataset: str, directory: Path, skip: bool) -> None:
    """Print the result of an inspection as JSON.

    Args:
        dataset: Key of INSPECTORS.
        directory: Directory of the data set.
        skip: Accept a data set with damaged samples.
    """
    try:
        result = asdict(inspect(dataset, directory))
    except Damaged as error:
        result = asdict(error.dataset) if skip else {"error": str(error), "damaged": True}
    except DataError as error:
        result = {"error": str(error), "damaged": False}
    print(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:] == ["skip"])
