"""Losses and hits of a batch compared with Keras."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from orchestrator.trainer import compiled_steps
from orchestrator.trainer.data.batches import Split
from orchestrator.trainer.models import networks_by_name
from orchestrator.trainer.rank_setup import Trainer
from tests import samples

LOGITS = tf.constant(np.random.default_rng(5).normal(size=(6, 10)), tf.float32)
LABELS = tf.constant([0, 3, 9, 3, 1, 7], tf.int64)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_equals_keras(smoothing: float) -> None:
    config = samples.train_config(label_smoothing=smoothing)
    loss = compiled_steps.cross_entropy(LABELS, LOGITS, config)
    keras_loss = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=smoothing, reduction="none")
    np.testing.assert_allclose(loss, keras_loss(tf.one_hot(LABELS, 10), LOGITS), rtol=1e-5)


def test_scores_are_sums_over_the_batch() -> None:
    loss, top1, top5, images = compiled_steps.scores(LABELS, LOGITS).numpy().tolist()
    ranks = [int((row > row[label]).sum()) for row, label in zip(LOGITS.numpy(), LABELS.numpy(), strict=True)]
    keras_loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum")
    assert loss == pytest.approx(float(keras_loss(LABELS, LOGITS)))
    assert (top1, top5, images) == (sum(rank < 1 for rank in ranks), sum(rank < 5 for rank in ranks), 6)


def test_top5_counts_all_if_there_are_fewer_than_five_classes() -> None:
    scores = compiled_steps.scores(tf.constant([0, 2, 1], tf.int64), LOGITS[:3, :3])
    assert scores.numpy().tolist()[2:] == [3, 3]


def test_evaluation_is_traced_once_for_all_batch_sizes() -> None:
    model = networks_by_name.build("lenet", 28, 1, 10, seed=1)
    nothing = Split(0, lambda index, seed: (index, seed), 1)
    trainer = Trainer(samples.train_config(), model, keras.optimizers.SGD(), nothing, nothing, 4, 1)
    evaluate: Any = compiled_steps.evaluation(trainer)
    for count in (4, 4, 3):
        images = tf.zeros([count, 28, 28, 1], model.inputs[0].dtype)
        assert float(evaluate(images, LABELS[:count])[3]) == count
    assert evaluate.experimental_get_tracing_count() == 1
