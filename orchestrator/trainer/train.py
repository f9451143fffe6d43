"""Synchronous data-parallel training: ``python -m orchestrator.trainer.train RUN_DIRECTORY`` on every rank.

Recipe of Goyal et al. 2017, "Accurate, Large Minibatch SGD" (arXiv 1706.02677): SGD with momentum, the learning rate
scaled with the number of ranks, approached by a linear warm-up.
"""

import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import horovod.tensorflow as hvd
import tensorflow as tf

from orchestrator.schema import Epoch, Scores, TrainConfig
from orchestrator.trainer import agreement, outcome, reduction, schedule, setup
from orchestrator.trainer.found import DataError
from orchestrator.trainer.setup import Trainer

Step = Callable[[tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]
CHECK_STEPS = 50  # between two looks at whether the loss is still a number: each waits for all ranks


def main(run_directory: Path) -> None:
    config = TrainConfig.model_validate_json((run_directory / "config.json").read_text())
    hvd.init()
    outcome.say(f"{hvd.size()} ranks: reading {config.dataset}, building {config.model}")
    setup.prepare(config)
    trainer = setup.build(config)
    with trainer.record:
        results = outcome.begin(run_directory, trainer)
        step, evaluate = _train_step(trainer), _test_step(trainer)
        try:
            while trainer.epoch < config.epochs and not trainer.ended:
                trainer.epoch += 1
                results.add(_epoch(trainer, step, evaluate))
        except DataError as error:
            sys.exit(f"rank {hvd.rank()} after step {trainer.step} (epoch {trainer.epoch}): {error}")
        results.end(trainer.ended or "epochs")


def _train_step(trainer: Trainer) -> Step:
    """A compiled step; gives (summed loss, top-1 hits, top-5 hits, images) of the rank's batch, float32.

    And the seconds that it waited for the gradients of others, float64 in the host's memory.
    """
    config, model, optimizer = trainer.config, trainer.model, trainer.optimizer
    decayed = [v for v in trainer.variables if len(v.shape) > 1]  # kernels, not biases nor batch normalisation

    @tf.function(reduce_retracing=True)
    def step(images: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            loss = tf.reduce_mean(_cross_entropy(labels, logits, config))
            loss += config.weight_decay * tf.add_n([tf.nn.l2_loss(v) for v in decayed])
            scaled = optimizer.scale_loss(loss)
        gradients, waited = reduction.averages(tape.gradient(scaled, trainer.variables), config.fp16_allreduce)
        optimizer.apply(gradients, model.trainable_variables)
        return _scores(labels, logits), waited

    return step


def _test_step(trainer: Trainer) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
    @tf.function(reduce_retracing=True)
    def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return _scores(labels, trainer.model(images, training=False))

    return step


def _cross_entropy(labels: tf.Tensor, logits: tf.Tensor, config: TrainConfig) -> tf.Tensor:
    smooth = config.label_smoothing
    targets = tf.one_hot(labels, config.classes) * (1.0 - smooth) + smooth / config.classes
    return tf.nn.softmax_cross_entropy_with_logits(targets, logits)


def _scores(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    loss = tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
    top = [tf.reduce_sum(tf.cast(tf.math.in_top_k(labels, logits, k), tf.float32)) for k in (1, 5)]
    return tf.stack([loss, *top, tf.cast(tf.shape(labels)[0], tf.float32)])


def _epoch(trainer: Trainer, step: Step, evaluate: Callable[..., tf.Tensor]) -> Epoch:
    sums, seconds, timed = _train_epoch(trainer, step)
    train = agreement.scores(trainer, sums, "training")
    agreement.average_statistics(trainer.model)
    started = time.perf_counter()
    test = _evaluate(trainer, evaluate)
    for split, means in (("train", train), ("test", test)):
        trainer.record.scores(split, means.loss, means.top1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    rates, peaks, parts = zip(*hvd.allgather_object((timed, peak, trainer.record.mean)), strict=True)
    known = [part for part in parts if part]
    return Epoch(
        epoch=trainer.epoch,
        steps=trainer.step,
        learning_rate=schedule.learning_rate(trainer.config, hvd.size(), trainer.steps_per_epoch, trainer.step - 1),
        train=train,
        test=test,
        images_per_second=sum(rates),
        images_per_second_per_rank=list(rates),
        peak_memory_per_rank=list(peaks),
        seconds=seconds,
        test_seconds=time.perf_counter() - started,
        input_seconds=[part.input for part in known],
        compute_seconds=[part.compute for part in known],
        communication_seconds=[part.communication for part in known],
        weights_sha256=agreement.digest(trainer.model),
    )


def _train_epoch(trainer: Trainer, step: Step) -> tuple[tf.Tensor, float, float]:
    """Sums of the rank's scores, seconds, and its images/s without the step that traces."""
    config = trainer.config
    mine = trainer.train_split.share(config.seed, trainer.epoch, hvd.size(), hvd.rank())
    mine = mine[: trainer.steps_per_epoch * trainer.batch]
    batches = trainer.train_split.batches(mine, trainer.batch, config.seed + trainer.epoch, True)
    sums, clock = tf.zeros([4]), outcome.Clock(trainer)
    for images, labels in trainer.record.epoch(trainer.epoch, batches):
        rate = schedule.learning_rate(config, hvd.size(), trainer.steps_per_epoch, trainer.step)
        trainer.optimizer.learning_rate = rate
        scores, waited = step(images, labels)
        sums += scores
        trainer.step += 1
        clock.tick(sums)
        with trainer.record.agreeing():
            if trainer.step % CHECK_STEPS == 0:
                agreement.scores(trainer, sums, "training")
            trainer.ended = _ending(trainer)
        trainer.record.step(trainer.step, rate, float(waited))
        if trainer.ended:
            break
    return sums, clock.seconds, clock.rate


def _ending(trainer: Trainer) -> "str | None":
    """Why to stop now, the same on every rank: whether time is up is for rank 0 to say."""
    config = trainer.config
    if config.steps is not None and trainer.step >= config.steps:
        return "steps"
    if config.max_time is None:
        return None
    up = tf.constant(float(time.monotonic() - trainer.started >= config.max_time))
    return "max-time" if float(hvd.broadcast(up, root_rank=0, name="time")) else None


def _evaluate(trainer: Trainer, evaluate: Callable[..., tf.Tensor]) -> Scores:
    mine = trainer.test_split.part(hvd.size(), hvd.rank())
    sums = tf.zeros([4])
    for images, labels in trainer.test_split.batches(mine, trainer.batch, 0, False):
        sums += evaluate(images, labels)
    return agreement.scores(trainer, sums, "test")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
