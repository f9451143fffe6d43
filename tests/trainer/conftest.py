"""Fixtures of the tests with TensorFlow, which run inside the node image (contract/test_trainer_in_image.py)."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import pytest
import tensorflow as tf

from tests.trainer import class_folders

tf.config.threading.set_intra_op_parallelism_threads(2)


@pytest.fixture(autouse=True)
def forget_models() -> Iterator[None]:
    """Reset Keras' names, precision and graphs to those of a fresh process for each test."""
    yield
    keras.mixed_precision.set_dtype_policy("float32")
    keras.backend.clear_session()


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write class folders in ``folders``, and their shards in ``records`` by two ranks."""
    directory = tmp_path_factory.mktemp("dataset")
    class_folders.prepare(directory, class_folders.folders(directory / "folders"))
    return directory


@pytest.fixture
def dataset_copy(dataset: Path, tmp_path: Path) -> Path:
    """Copy the data set for a test that damages it."""
    return Path(shutil.copytree(dataset, tmp_path / "copy"))
