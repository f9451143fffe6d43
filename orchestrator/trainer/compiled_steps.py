"""Steps that TensorFlow compiles: training, several steps per call, and evaluation."""

from collections.abc import Callable
from functools import partial

import horovod.tensorflow as hvd
import keras
import numpy as np
import tensorflow as tf

from orchestrator.schema import TrainConfig
from orchestrator.trainer.comm import allreduce
from orchestrator.trainer.optim import accumulation
from orchestrator.trainer.rank_setup import Trainer
from orchestrator.trainer.tensorflow_operations import casts

# (images and labels of some batches, learning rates, votes, sums) -> (sums, times, votes of all ranks)
TrainStep = Callable[[tf.Tensor, tf.Tensor, np.ndarray, tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor, tf.Tensor]]
TestStep = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
Step = Callable[[tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]
STEP_INPUTS = [(None, tf.float32), (None, tf.int32), (4, tf.float32)]  # learning rates, votes, sums


def training(trainer: Trainer) -> TrainStep:
    """Trace a function that runs several steps per call, with the same bits however many steps a call has.

    It takes the images of all batches, their labels, the learning rate of each step, the votes of this rank and the
    sums of scores. It returns the sums with those of its steps added, float32: (summed loss, top-1 hits, top-5 hits,
    images); the times of each step at which its gradients were ready, float64 (steps, ...), on one rank those of
    ``StepProfile.watch``, on several those of ``allreduce.allreduce_mean``; and the summed votes of all ranks, int32.
    The last two are in the host's memory.
    """
    model, optimizer = trainer.model, trainer.optimizer
    step = _step(trainer)

    @tf.function(
        input_signature=[*_input_signature(model), *(tf.TensorSpec([n], t) for n, t in STEP_INPUTS)], autograph=False
    )
    def steps(
        images: tf.Tensor, labels: tf.Tensor, rates: tf.Tensor, votes: tf.Tensor, sums: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        batches = [tf.reshape(whole, [-1, trainer.batch, *whole.shape[1:]]) for whole in (images, labels)]

        def more(number: tf.Tensor, sums: tf.Tensor, times: tf.TensorArray) -> tuple[tf.Tensor, tf.Tensor, object]:
            optimizer.learning_rate = rates[number]
            scores, ready = step(*(batch[number] for batch in batches))
            with tf.device("CPU:0"):
                times = times.write(number, ready)
            return number + 1, sums + scores, times

        count = tf.shape(rates)[0]
        with tf.device("CPU:0"):
            times = tf.TensorArray(tf.float64, count)
        begin = (tf.constant(0), sums, times)
        _, sums, times = tf.while_loop(lambda number, *_: number < count, more, begin, parallel_iterations=1)
        with tf.device("CPU:0"):
            return sums, times.stack(), allreduce.allreduce_sum(votes)

    steps.get_concrete_function()
    return steps


def _input_signature(model: keras.Model) -> list[tf.TensorSpec]:
    """Return the signature of images and labels of any batch size, since an evaluation's last batch is shorter."""
    (images,) = model.inputs
    return [tf.TensorSpec(images.shape, images.dtype), tf.TensorSpec([None], tf.int64)]


def _step(trainer: Trainer) -> Step:
    config, model, optimizer, guard = trainer.config, trainer.model, trainer.optimizer, trainer.guard

    def backward(images: tf.Tensor, labels: tf.Tensor) -> tuple[list[tf.Tensor], tf.Tensor]:
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            loss = tf.reduce_mean(cross_entropy(labels, logits, config))
            scaled = optimizer.scale_loss(loss)
        return tape.gradient(scaled, trainer.variables), scores(labels, logits)

    passes = tf.function(backward, jit_compile=True, autograph=False) if config.xla else backward

    def step(images: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        before = guard.save_statistics()
        local_gradients, local_scores = accumulation.mean_gradients(
            passes, trainer.passes, trainer.variables, images, labels
        )
        gradients, ready = allreduce.allreduce_mean(local_gradients, config)
        if hvd.size() == 1:
            ready = trainer.profile.watch([casts.undo(gradient, tf.bfloat16) for gradient in local_gradients])
        update = partial(optimizer.apply, gradients, model.trainable_variables)
        return guard.apply(update, local_scores, gradients, before), ready

    return step


def evaluation(trainer: Trainer) -> TestStep:
    """Compile a step that returns the scores of its batch, as :func:`scores`."""

    @tf.function(input_signature=_input_signature(trainer.model), autograph=False)
    def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return scores(labels, trainer.model(images, training=False))

    return step


def cross_entropy(labels: tf.Tensor, logits: tf.Tensor, config: TrainConfig) -> tf.Tensor:
    """Compute the cross entropy of each image with smoothed labels (Szegedy et al. 2016, section 7).

    Args:
        labels: Class numbers, int64 (images).
        logits: float32 (images, classes).
        config: Sets ``classes`` and ``label_smoothing``.

    Returns:
        Loss of each image in nats, float32 (images).
    """
    smooth = config.label_smoothing
    targets = tf.one_hot(labels, config.classes) * (1.0 - smooth) + smooth / config.classes
    return tf.nn.softmax_cross_entropy_with_logits(targets, logits)


def scores(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Return (summed loss, top-1 hits, top-5 hits, images), float32."""
    loss = tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
    top = [tf.reduce_sum(tf.cast(tf.math.in_top_k(labels, logits, k), tf.float32)) for k in (1, 5)]
    return tf.stack([loss, *top, tf.cast(tf.shape(labels)[0], tf.float32)])
