"""The data of Horovod's examples, made of MNIST's test set, in the directory of a run."""

import gzip
from pathlib import Path

import numpy as np

MNIST = Path(__file__).parents[1] / "data" / "mnist"
KINDS = ("images-idx3-ubyte", "labels-idx1-ubyte")
# Keras checks the SHA-256 of mnist.npz against the published file, which has the training set too.
SKIP_CHECKSUM = """
from keras.src.utils import file_utils

file_utils.validate_file = lambda *args, **kwargs: True
"""


def for_keras(directory: Path) -> None:
    """Write mnist.npz as Keras downloads it, one for each rank, and a module that makes Keras accept it."""
    images, labels = _arrays()
    datasets = directory / "keras" / "datasets"
    datasets.mkdir(parents=True)
    for name in ("mnist", "mnist-0", "mnist-1"):
        np.savez(datasets / f"{name}.npz", x_train=images, y_train=labels, x_test=images[:1000], y_test=labels[:1000])
    (directory / "sitecustomize.py").write_text(SKIP_CHECKSUM)


def for_pytorch(directory: Path) -> None:
    """Write MNIST's files like torchvision."""
    raw = directory / "data" / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for kind in KINDS:
        content = gzip.decompress((MNIST / f"t10k-{kind}.gz").read_bytes())
        for split in ("train", "t10k"):
            (raw / f"{split}-{kind}").write_bytes(content)


def _arrays() -> "tuple[np.ndarray, np.ndarray]":
    images, labels = (gzip.decompress((MNIST / f"t10k-{kind}.gz").read_bytes()) for kind in KINDS)
    return np.frombuffer(images, np.uint8, offset=16).reshape(-1, 28, 28), np.frombuffer(labels, np.uint8, offset=8)
