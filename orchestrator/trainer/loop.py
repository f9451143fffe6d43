"""Epochs of a run, from the first or the point of resumption to the last or the point where it stops.

An epoch is trained, a checkpoint is written, and the model is evaluated. A run that stops within an epoch first writes
a checkpoint, with each rank's own statistics, and then closes the epoch with the scores of its trained part: always
after ``--steps``, after ``--max-time`` if there is time before the limit, and never once the run was asked to end, even
while it evaluates.
"""

import resource
import time
from pathlib import Path

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from orchestrator.schema import Epoch, Trained, Unfinished
from orchestrator.trainer import evaluation, global_metrics, results, stopping
from orchestrator.trainer.checkpoints.checkpoint import Arrays, Keeper
from orchestrator.trainer.comm import allreduce
from orchestrator.trainer.feed import Feed
from orchestrator.trainer.optim import schedule
from orchestrator.trainer.rank_setup import Trainer
from orchestrator.trainer.steps import TestStep, TrainStep
from orchestrator.trainer.stopping import Watch

CHECK_STEPS = 50  # between two checks that the loss is a number: each waits for all ranks


class Training:
    """One rank's part in a run."""

    def __init__(self, directory: Path, trainer: Trainer, step: TrainStep, evaluate: TestStep) -> None:
        self.trainer, self.step, self.evaluate = trainer, step, evaluate
        self.watch = Watch(directory, trainer)
        self.keeper = Keeper(directory / "checkpoints", trainer, self.watch)
        self.point, self.tallies = self.keeper.restore()
        self.results = results.begin(directory, trainer, list(self.keeper.epochs))
        self.feed = Feed(trainer)

    def run(self) -> str:
        """Train, and return the reason for the end.

        All ranks return together, so that none ends before the others.
        """
        trainer = self.trainer
        if self.point and self.point.trained and self.point.epoch > len(self.point.epochs):
            self._close(self.point.trained)
        trainer.ended = trainer.ended or stopping.steps(trainer)
        while trainer.epoch < trainer.config.epochs and not trainer.ended:
            trainer.epoch += 1
            self._epoch()
            if trainer.epoch < trainer.config.epochs and not trainer.ended:
                trainer.ended = stopping.reason(trainer, self.watch.agree())
        ended = trainer.ended or "epochs"
        self.results.end(ended, global_metrics.damaged(trainer), self._unfinished())
        if ended in ("max-time", "terminated"):
            results.say(f"{ended} after step {trainer.step}: `train --resume {trainer.config.run}` goes on")
        hvd.allgather_object(None)
        return ended

    def _epoch(self) -> None:
        trainer = self.trainer
        sums, clock = self._train()
        whole = trainer.done == trainer.steps_per_epoch
        if not whole:
            images = self._save(sums, clock)
            if trainer.ended == "terminated" or (trainer.ended == "max-time" and not images):
                return
        trained = self._trained(sums, clock)
        if whole:
            self.keeper.save({}, trained)
        if trainer.ended in (None, "steps") or (trainer.ended == "max-time" and self.watch.room_for_all("evaluation")):
            self._close(trained)

    def _train(self) -> "tuple[tf.Tensor, results.Clock]":
        """Train the epoch; return the rank's sums of scores and its clock, with a resumed run's part of the epoch."""
        trainer, before = self.trainer, self._before()
        sums, clock = tf.constant(before["sums"]), results.Clock(trainer, before["timing"].tolist())
        self.watch.begin()
        for batch in trainer.record.epoch(trainer.epoch, self.feed.epoch()):
            images, labels = batch.result()
            rates = self.feed.rates(len(labels) // trainer.batch)
            sums, waited, wishes = self.step(images, labels, rates, self.watch.wishes(), sums)
            trainer.step += len(rates)
            clock.tick(sums)
            with trainer.record.agreeing():
                if trainer.step % CHECK_STEPS < len(rates):
                    global_metrics.total(trainer, sums, "training")
            trainer.record.step(trainer.step, float(rates[-1]), float(waited), len(rates))
            self.watch.stepped(len(rates))
            agreed = stopping.agreed(wishes)
            self.feed.steps = agreed.steps
            trainer.ended = stopping.reason(trainer, agreed)
            if trainer.ended:
                break
            if agreed.checkpoint and trainer.done < trainer.steps_per_epoch:
                self._save(sums, clock)
        return sums, clock

    def _before(self) -> Arrays:
        """Return the sums and times of this epoch from the resumed run, once; zeros afterwards."""
        tallies, self.tallies = self.tallies, {}
        return {"sums": np.zeros(4, np.float32), "timing": np.zeros(3), **tallies}

    def _save(self, sums: tf.Tensor, clock: results.Clock) -> float:
        """Write a checkpoint within the epoch and return the number of images that count so far.

        Ends the program of every rank if the loss is not a number.
        """
        *_, images = global_metrics.total(self.trainer, sums, "training")
        self.keeper.save({"sums": sums.numpy(), "timing": np.array(clock.timing)})
        return images

    def _trained(self, sums: tf.Tensor, clock: results.Clock) -> Trained:
        """Combine the epoch's training over all ranks; afterwards they have the same batch normalisation statistics."""
        trainer, seconds = self.trainer, clock.seconds
        train = global_metrics.scores(trainer, sums, "training")
        global_metrics.average_statistics(trainer.model)
        trainer.record.scores("train", train.loss, train.top1)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        rates, peaks, parts = zip(*hvd.allgather_object((clock.rate, peak, trainer.record.mean)), strict=True)
        known = [part for part in parts if part]
        last = schedule.learning_rate(
            trainer.config, allreduce.scale(trainer.config), trainer.steps_per_epoch, trainer.step - 1
        )
        return Trained(
            epoch=trainer.epoch,
            steps=trainer.step,
            learning_rate=last,
            train=train,
            images_per_second=sum(rates),
            images_per_second_per_rank=list(rates),
            peak_memory_per_rank=list(peaks),
            seconds=seconds,
            input_seconds=[part.input for part in known],
            compute_seconds=[part.compute for part in known],
            communication_seconds=[part.communication for part in known],
        )

    def _close(self, trained: Trained) -> None:
        """Evaluate and add the epoch to the results, unless the run was asked to end during the evaluation."""
        begun = time.perf_counter()
        with self.watch.measured("evaluation"):
            test = evaluation.scores(self.trainer, self.watch, self.evaluate, self.feed.test())
        if test is None:
            self.trainer.ended = "terminated"
            return
        seconds = time.perf_counter() - begun
        self.trainer.record.scores("test", test.loss, test.top1)
        digest = global_metrics.digest(self.trainer.model)
        epoch = Epoch(**trained.model_dump(), test=test, test_seconds=seconds, weights_sha256=digest)
        self.results.add(epoch, global_metrics.damaged(self.trainer))
        if self.trainer.done == self.trainer.steps_per_epoch:
            self.keeper.close(epoch)

    def _unfinished(self) -> "Unfinished | None":
        """Return how the steps of the last epoch were split if it is not in the results; a collective call."""
        record, closed = self.trainer.record, [epoch.epoch for epoch in self.results.results.epochs]
        if self.trainer.epoch in closed or not record.counted:
            return None
        parts = hvd.allgather_object(vars(record.mean))
        return Unfinished(
            steps=record.counted, **{f"{name}_seconds": [part[name] for part in parts] for name in parts[0]}
        )
