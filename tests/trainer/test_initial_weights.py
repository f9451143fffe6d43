"""Initial weights, drawn in threads, and the broadcast of rank 0's variables."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from orchestrator.trainer import models
from orchestrator.trainer.models import initializers
from tests.trainer import launcher

# Several messages of two types, one variable larger than a message; then the values that each rank has.
PROGRAM = """
import horovod.tensorflow as hvd, tensorflow as tf
from orchestrator.trainer.comm import compressed
hvd.init()
compressed.MESSAGE_BYTES = 64
shapes = [[], [3], [40], [2, 5], [0], [7]]
variables = [tf.Variable(tf.fill(shape, float(10 * hvd.rank() + number))) for number, shape in enumerate(shapes)]
variables.insert(2, tf.Variable([hvd.rank() + 5, 2**40], dtype=tf.int64))
compressed.broadcast_variables(variables)
expected = [float(number) for number in range(6)]
found = [set(v.numpy().ravel().tolist()) for v in variables if v.dtype == tf.float32]
assert found == [{0.0}, {1.0}, {2.0}, {3.0}, set(), {5.0}], found
assert variables[2].numpy().tolist() == [5, 2**40]
print("as rank 0 has them:", hvd.rank())
"""


@pytest.mark.parametrize("name", ["resnet20", "mobilenet_v2", "lenet"])
def test_weights_are_independent_of_the_number_of_threads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    many = models.build(name, 32, 3, 10, seed=1).get_weights()
    monkeypatch.setattr(initializers, "THREADS", ThreadPoolExecutor(1))
    for single, other in zip(models.build(name, 32, 3, 10, seed=1).get_weights(), many, strict=True):
        np.testing.assert_array_equal(single, other)


@pytest.mark.parametrize("name", ["resnet20", "mobilenet_v2", "lenet"])
def test_every_kernel_gets_the_values_of_its_initializer(name: str) -> None:
    model = models.build(name, 32, 3, 10, seed=1)
    starts = [(layer, getattr(layer, role, None)) for layer in model.layers for role in initializers.ROLES]
    drawn = [
        (layer.kernel, start.start) for layer, start in starts if isinstance(start, initializers.ParallelInitializer)
    ]
    assert len(drawn) == sum(len(v.shape) > 1 for v in model.trainable_variables)
    for kernel, start in drawn:
        np.testing.assert_array_equal(kernel.numpy(), start(kernel.shape, "float32"))


def test_broadcast_copies_variables_of_all_types_and_sizes(tmp_path: Path) -> None:
    output = launcher.launch(tmp_path, [sys.executable, "-c", PROGRAM])
    assert output.returncode == 0, output.stdout
    assert output.stdout.count("as rank 0 has them:") == 2
