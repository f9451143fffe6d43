"""The trained network as a SavedModel, loaded by a process that has TensorFlow alone and not this package."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from orchestrator.schema import SAVED_MODEL
from orchestrator.trainer import saved_model
from orchestrator.trainer.data import in_memory, sdss
from orchestrator.trainer.models import networks_by_name
from tests import samples
from tests.trainer import launcher

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "training.md"
NETWORKS = {"lenet": (28, 1, 10), "resnet20": (28, 1, 10), "mobilenet_v2": (32, 3, 10), "dense": (1, 8, 3)}
LOAD = """
import sys
sys.modules["orchestrator"] = None  # importing it fails
import numpy as np
import tensorflow as tf
network = tf.saved_model.load("model")
inputs = np.load("inputs.npy")
logits = network.signatures["serving_default"](inputs=tf.constant(inputs))["output_0"]
np.testing.assert_allclose(network.serve(inputs[:1]), logits[:1], rtol=1e-3, atol=1e-3)
np.save("logits.npy", logits)
"""


def alone(directory: Path, *program: str, **variables: str) -> str:
    """Run Python in ``directory`` without this package, and return its output."""
    environment = {**os.environ, "PYTHONPATH": "", **variables}
    found = subprocess.run(
        [sys.executable, *program], cwd=directory, env=environment, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


def drawn(name: str) -> keras.Model:
    """Build a network with random statistics of batch normalisation, as after training."""
    model, random = networks_by_name.build(name, *NETWORKS[name], 1), np.random.default_rng(1)
    for variable in model.non_trainable_variables:
        if keras.backend.is_float_dtype(variable.dtype):
            variable.assign(random.uniform(0.5, 1.5, variable.shape))
    return model


def written(directory: Path, name: str, model: keras.Model) -> Path:
    size, channels, classes = NETWORKS[name]
    config = samples.train_config(model=name, image_size=size, channels=channels, classes=classes, seed=7)
    saved_model.write(directory, config, model)
    return directory / SAVED_MODEL


def inputs_of(name: str) -> np.ndarray:
    size, channels, _ = NETWORKS[name]
    values = np.random.default_rng(2).integers(0, 256, (5, size, size, channels))
    return values.astype(np.float32 if name == "dense" else np.uint8)


def logits(model: Path, inputs: np.ndarray, **variables: str) -> np.ndarray:
    """Return what a process without this package computes."""
    np.save(model.parent / "inputs.npy", inputs)
    alone(model.parent, "-c", LOAD, **variables)
    return np.load(model.parent / "logits.npy")


@pytest.mark.parametrize("name", NETWORKS)
def test_network_gives_the_logits_of_the_trained_one(tmp_path: Path, name: str) -> None:
    model, inputs = drawn(name), inputs_of(name)
    found = logits(written(tmp_path, name, model), inputs)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, model(inputs, training=False), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_network_trained_in_16_bits_computes_in_32(tmp_path: Path, precision: str) -> None:
    """So it needs no CPU with AVX-512, without which TensorFlow cannot convolve in bfloat16."""
    inputs, exact = inputs_of("resnet20"), drawn("resnet20")
    keras.mixed_precision.set_dtype_policy(f"mixed_{precision}")
    model = networks_by_name.build("resnet20", *NETWORKS["resnet20"], 2)
    model.set_weights(exact.get_weights())
    networks_by_name.prepare_for_xla(model)
    found = logits(written(tmp_path, "resnet20", model), inputs, ONEDNN_MAX_CPU_ISA="AVX2")
    np.testing.assert_allclose(found, exact(inputs, training=False), rtol=1e-5, atol=1e-5)
    assert keras.mixed_precision.dtype_policy().name == f"mixed_{precision}"


def test_unfinished_network_of_a_killed_process_is_replaced(tmp_path: Path) -> None:
    (tmp_path / saved_model.UNFINISHED / "variables").mkdir(parents=True)
    (tmp_path / saved_model.UNFINISHED / "rest").touch()
    model = written(tmp_path, "lenet", drawn("lenet"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["output"]
    assert "rest" not in [path.name for path in model.iterdir()]


def test_network_that_cannot_be_written_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "output").touch()
    with pytest.raises(saved_model.NotWritten, match=rf"to {tmp_path}/output/model: .*: `orchestrator train --resume "):
        written(tmp_path, "lenet", drawn("lenet"))
    assert [path.name for path in tmp_path.iterdir()] == ["output"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train two ranks to a step within the second epoch, and leave the network."""
    directory = tmp_path_factory.mktemp("run") / "first"
    output = launcher.train(directory, 2, model="lenet", steps=3, save_model=True)
    assert output.returncode == 0, output.stdout
    return directory


def test_run_of_two_ranks_leaves_the_network_with_its_accuracy(run: Path) -> None:
    images, labels = samples_of(run)
    found = logits(run / SAVED_MODEL, images)
    assert np.mean(found.argmax(1) == labels) == launcher.results(run).epochs[-1].test.top1


def samples_of(run: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the test split of samples.mnist: every pixel of image i is i, and its label i modulo 10."""
    count = launcher.results(run).epochs[-1].test.images
    images = np.arange(count, dtype=np.uint8)[:, None, None, None] * np.ones((1, 28, 28, 1), np.uint8)
    return images, np.arange(count) % 10


def test_resumed_run_without_a_step_left_writes_the_network(tmp_path: Path) -> None:
    """Within an epoch, statistics of batch normalisation in the checkpoint differ by rank: their mean is written."""
    first = launcher.train(tmp_path / "first", 2, steps=3)
    assert (first.returncode, (tmp_path / "first" / SAVED_MODEL).exists()) == (0, False), first.stdout
    point = tmp_path / "first" / "checkpoints" / "epoch-0002-step-000003"
    again = launcher.train(tmp_path / "again", 2, steps=3, save_model=True, resume=str(point))
    assert again.returncode == 0, again.stdout
    assert launcher.results(tmp_path / "again").ended == "steps"
    images, _ = samples_of(tmp_path / "first")
    found = logits(tmp_path / "again" / SAVED_MODEL, images)
    np.testing.assert_allclose(found, checkpointed(point)(images, training=False), rtol=1e-4, atol=1e-4)


def test_resumed_run_that_has_its_accuracy_writes_the_network_and_trains_no_more(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"model": "lenet", "epochs": 30, "until": "top1=0.1"}
    assert launcher.train(tmp_path / "first", 2, **settings).returncode == 0
    first = launcher.results(tmp_path / "first")
    point = tmp_path / "first" / "checkpoints" / f"epoch-{len(first.epochs):04}"
    again = launcher.train(tmp_path / "again", 2, **settings, save_model=True, resume=str(point))
    assert again.returncode == 0, again.stdout
    resumed = launcher.results(tmp_path / "again")
    assert (first.ended, resumed.ended, resumed.config.epochs) == ("until", "until", 30)
    assert resumed.epochs == first.epochs
    assert (tmp_path / "again" / SAVED_MODEL / "saved_model.pb").is_file()


@pytest.mark.parametrize("precision", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_network_for_a_table_takes_columns_as_they_are_in_the_file(tmp_path: Path, precision: str) -> None:
    """It standardises them in float32, whatever the run computed in."""
    rows = [samples.sky(number) for number in range(40)]
    shape: dict[str, Any] = {"dataset": "sdss", "image_size": 1, "channels": 6, "classes": 3}
    data = samples.table(tmp_path / "data" / "sky.csv", rows)
    config = samples.train_config(model="dense", **shape, data=str(data))
    exact = networks_by_name.build("dense", 1, 6, 3, seed=1)
    keras.mixed_precision.set_dtype_policy(precision)
    model = networks_by_name.build("dense", 1, 6, 3, seed=2)
    model.set_weights(exact.get_weights())
    saved_model.write(tmp_path, config, model)
    (standardised, _), _ = in_memory.read(config)
    columns = [[float(row[name]) for name in sdss.FEATURES] for number, row in enumerate(rows) if number % 10 != 9]
    found = logits(tmp_path / SAVED_MODEL, np.array(columns, np.float32)[:, None, None, :])
    np.testing.assert_allclose(found, exact(standardised, training=False), rtol=1e-4, atol=1e-4)


def checkpointed(point: Path) -> keras.Model:
    """Return resnet20 with the weights of a checkpoint and the mean of two ranks' statistics."""
    model = networks_by_name.build("resnet20", *NETWORKS["resnet20"], 1)
    tf.train.Checkpoint(model=model).read(str(point / "state")).expect_partial()
    with np.load(point / "ranks.npz") as ranks:
        for number, variable in enumerate(model.non_trainable_variables):
            variable.assign((ranks[f"0/{number}"] + ranks[f"1/{number}"]) / 2)
    return model


def test_terminated_run_leaves_no_network(tmp_path: Path) -> None:
    (tmp_path / "stop").touch()
    output = launcher.train(tmp_path, 2, model="lenet", epochs=500, save_model=True)
    assert "terminated after step" in output.stdout
    assert not (tmp_path / "output").exists()


def test_run_that_cannot_write_its_network_fails_with_one_error(tmp_path: Path) -> None:
    (tmp_path / "output").touch()
    output = launcher.train(tmp_path, 2, model="lenet", steps=1, save_model=True)
    assert output.returncode != 0
    assert output.stdout.count("the trained network could not be written to") == 1
    assert "<stderr>:Traceback" not in output.stdout


def test_example_of_the_guide_classifies_an_image_file(tmp_path: Path, run: Path) -> None:
    (program,) = re.findall(r"```python\n(import.*?)```", GUIDE.read_text(), re.DOTALL)
    shutil.copytree(run / SAVED_MODEL, tmp_path / "model")
    image = np.random.default_rng(3).integers(0, 256, (28, 28, 1)).astype(np.uint8)
    (tmp_path / "digit.png").write_bytes(tf.io.encode_png(image).numpy())
    (tmp_path / "classify.py").write_text(program)
    found = logits(run / SAVED_MODEL, image[None])
    assert alone(tmp_path, "classify.py", "model", "digit.png").startswith(f"class {found.argmax()}, ")
