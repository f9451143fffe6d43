"""Several ranks compute the gradients and test scores of a single rank."""

import sys
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from orchestrator.schema import Scores, TrainConfig
from orchestrator.trainer.data import batches as data_batches
from orchestrator.trainer.data import sample_order as data_order
from tests import samples
from tests.trainer import launcher

ALL_RANKS = 30  # samples of a training step on all ranks together
# One step on every rank, with the model below in place of a published one: it has no batch normalisation.
PROGRAM = """
import pathlib, sys
import horovod.tensorflow as hvd, numpy as np
from orchestrator.trainer import rank_setup, train
from orchestrator.trainer.models import networks_by_name
from tests import samples
from tests.trainer.test_data_parallel import small

made = []
def build(*_, **__):
    made.append(small())
    return made[0]

networks_by_name.build = build
train.main(pathlib.Path(sys.argv[1]))
if hvd.rank() == 0:
    np.savez(f"{sys.argv[1]}/weights.npz", *made[0].get_weights())
config = samples.train_config(dataset="synthetic", image_size=8, synthetic_images=hvd.size() - 1)
rank_setup.build(config, pathlib.Path(sys.argv[1]))
"""


def small() -> keras.Model:
    """Return a network of one hidden layer for the Sloan table, always with the same weights."""
    keras.utils.set_random_seed(3)
    layers = [keras.Input((1, 1, 6)), keras.layers.Flatten(), keras.layers.Dense(8, "tanh"), keras.layers.Dense(3)]
    return keras.Sequential(layers)


@dataclass
class Run:
    """Files of a run of one step."""

    config: TrainConfig
    scores: Scores
    weights: list[np.ndarray]
    output: str


CASES = [(1, 1, 530), (2, 1, 530), (3, 1, 530), (5, 1, 49), (1, 5, 530), (2, 3, 530)]


@pytest.fixture(scope="module", params=CASES, ids="{0[0]} ranks, {0[1]} passes".format)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Train with some ranks and passes on rows with a tenth held out: uneven shards, one of five empty."""
    ranks, passes, rows = request.param
    directory = tmp_path_factory.mktemp("run") / "one-step"
    data = samples.table(directory / "data" / "sky.csv", [samples.sky(number) for number in range(rows)])
    shape = {"dataset": "sdss", "data": str(data), "image_size": 1, "channels": 6, "classes": 3}
    batches = ranks * passes
    steps: dict[str, Any] = {"batch_size": ALL_RANKS // batches, "learning_rate": 1.0 / batches, "milestones": []}
    steps |= {"epochs": 1, "steps": 1, "backward_passes_per_step": passes}
    config = samples.train_config(**shape, **steps)
    config.write(directory / "config.json")
    output = launcher.launch(directory, [sys.executable, "-c", PROGRAM, str(directory)], ranks).stdout
    with np.load(directory / "weights.npz") as weights:
        return Run(config, launcher.results(directory).epochs[0].test, list(weights.values()), output)


def test_gradient_of_all_ranks_equals_that_of_the_whole_batch(run: Run) -> None:
    """The learning rate is 1, so the change of the weights is the gradient."""
    model, (split, _) = small(), data_batches.load(run.config)
    order = data_order.epoch_order(split.size, run.config.seed, epoch=1)[:ALL_RANKS]
    images, labels = next(iter(split.batches(order, ALL_RANKS, seed=0, drop_remainder=True)))
    before = model.get_weights()
    with tf.GradientTape() as tape:
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(labels, model(images))
        kernels = [layer.kernel for layer in model.layers if hasattr(layer, "kernel")]
        loss += run.config.weight_decay * sum(tf.nn.l2_loss(kernel) for kernel in kernels)
    expected = tape.gradient(loss, [variable.value for variable in model.trainable_variables])
    for gradient, old, new in zip(expected, before, run.weights, strict=True):
        np.testing.assert_allclose(old - new, gradient, rtol=1e-4, atol=1e-6)


def test_every_test_sample_counts_once(run: Run) -> None:
    model, (_, split) = small(), data_batches.load(run.config)
    model.set_weights(run.weights)
    images, labels = next(iter(split.batches(np.arange(split.size), split.size, seed=0, drop_remainder=True)))
    logits = model(images)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(labels, logits)
    top1 = float(np.mean(np.argmax(logits, axis=1) == labels.numpy()))
    assert (run.scores.images, run.scores.top5) == (split.size, 1.0)
    assert (run.scores.loss, run.scores.top1) == pytest.approx((float(loss), top1), rel=1e-5)


def test_more_ranks_than_training_samples_are_refused(run: Run) -> None:
    world = ALL_RANKS // run.config.batch_size // run.config.backward_passes_per_step
    assert f"{world - 1} training images for {world} ranks: use --np {world - 1} or fewer" in run.output
