"""Create class folders of small images, and runs that convert them into shards."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from orchestrator.schema import PrepareConfig, Prepared
from tests import samples
from tests.trainer import launcher

# Limit the bytes of a file that this process writes, as a full disk would; -1 is no limit.
LARGEST_FILE = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({0}, resource.RLIM_INFINITY))\n"
PREPARE = "import pathlib, sys; from orchestrator.trainer.data import prepare; prepare.main(pathlib.Path(sys.argv[1]))"


def jpeg(number: int) -> bytes:
    """Return an image whose grey is its number."""
    return bytes(tf.io.encode_jpeg(np.full((24, 32, 3), 3 * number, np.uint8), quality=100).numpy())


def folders(directory: Path, train: int = 40, val: int = 9) -> Path:
    """Create class folders of ``train`` and ``val`` images in five classes."""
    files = {f"train/n{number % 5}/{number}.JPEG": jpeg(number) for number in range(train)}
    files |= {f"val/n{number % 5}/{number}.JPEG": jpeg(number) for number in range(val)}
    return samples.imagenet(directory, files)


def prepare(
    directory: Path, source: Path, ranks: int = 2, fails: bool = False, largest_file: int = -1, **changes: Any
) -> str:
    """Write shards into ``directory``/records by a run in ``directory``/run, and return its log.

    ``largest_file`` limits the bytes of a file that a rank writes, as a full disk would.
    """
    run = directory / "run"
    run.mkdir(parents=True, exist_ok=True)
    values = {"source": str(source), "target": str(directory / "records"), "shards": {"train": 4, "val": 2},
              "skip_unreadable": False, "threads": 2}  # fmt: skip
    PrepareConfig(**{**values, **changes}).write(run / "config.json")
    program = [sys.executable, "-c", LARGEST_FILE.format(largest_file) + PREPARE, str(run)]
    output = launcher.launch(run, program, ranks)
    assert (output.returncode != 0) == fails, output.stdout
    return output.stdout


def prepared(directory: Path) -> Prepared:
    return Prepared.model_validate_json((directory / "run" / "prepared.json").read_text())


def unreadable(directory: Path) -> Path:
    """Write class folders with two images that start like JPEGs and cannot be decoded."""
    source = folders(directory / "folders", train=12, val=4)
    for name in ("train/n1/bad.JPEG", "train/n2/worse.JPEG"):
        (source / name).write_bytes(samples.JPEG)
    return source


def damage(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(bytes(content))
