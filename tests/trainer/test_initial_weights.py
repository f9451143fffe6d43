"""Initial weights, and the broadcast of rank 0's variables."""

import sys
from pathlib import Path

import numpy as np
import pytest

from orchestrator.trainer.models import he_initializer, networks_by_name
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
def test_weights_follow_from_the_seed(name: str) -> None:
    first, again, other = (networks_by_name.build(name, 32, 3, 10, seed).get_weights() for seed in (1, 1, 2))
    for number, weights in enumerate(first):
        np.testing.assert_array_equal(weights, again[number])
        assert weights.ndim < 2 or not np.array_equal(weights, other[number])


@pytest.mark.parametrize("name", ["resnet20", "mobilenet_v2", "lenet", "alexnet", "dense"])
def test_weights_that_a_thread_draws_have_the_same_bits(name: str) -> None:
    at_once = networks_by_name.build(name, 63, 3, 10, 1)
    with he_initializer.postponed():
        later = networks_by_name.build(name, 63, 3, 10, 1)
    he_initializer.draw_in_background(later).result()
    for expected, weights in zip(at_once.get_weights(), later.get_weights(), strict=True):
        np.testing.assert_array_equal(weights, expected)


@pytest.mark.parametrize("name", ["resnet20", "mobilenet_v2", "lenet"])
def test_no_two_kernels_of_a_network_are_equal(name: str) -> None:
    """Two are if layers share an initializer, whose seed is drawn when it is made."""
    kernels = [weights for weights in networks_by_name.build(name, 32, 3, 10, seed=1).get_weights() if weights.ndim > 1]
    beginnings = {tuple(kernel.ravel()[:20] / kernel.std()) for kernel in kernels}
    assert len(beginnings) == len(kernels)


def test_broadcast_copies_variables_of_all_types_and_sizes(tmp_path: Path) -> None:
    output = launcher.launch(tmp_path, [sys.executable, "-c", PROGRAM])
    assert output.returncode == 0, output.stdout
    assert output.stdout.count("as rank 0 has them:") == 2
