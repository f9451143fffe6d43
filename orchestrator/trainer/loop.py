"""Epochs of a run, from the first or the point of resumption to the last or the point where it stops.

An epoch is trained, a checkpoint is written, and the model is evaluated. A run that stops within an epoch first writes
a checkpoint, with each rank's own statistics, and then closes the epoch with the scores of its trained part: always
after ``--steps``, after ``--max-time`` if there is time before the limit, and never once the run was asked to end, even
while it evaluates. A run with ``--until`` ends with the epoch that reaches it: all ranks have the same scores.
"""

import resource
import sys
import time
from pathlib import Path

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from orchestrator.schema import Epoch, StepTimes, Trained, Unfinished
from orchestrator.trainer import averages_over_ranks, evaluation, results, saved_model, stop_conditions
from orchestrator.trainer.checkpoints.checkpoint import Arrays, CheckpointManager
from orchestrator.trainer.compiled_steps import TestStep, TrainStep
from orchestrator.trainer.optim import nonfinite
from orchestrator.trainer.rank_input import Feed
from orchestrator.trainer.rank_setup import Trainer
from orchestrator.trainer.stop_conditions import StopControl, StopVotes
from orchestrator.trainer.telemetry import step_times
from orchestrator.trainer.telemetry.step_times import Exchange


class Training:
    """One rank's part in a run."""

    def __init__(self, directory: Path, trainer: Trainer, step: TrainStep, evaluate: TestStep) -> None:
        self.directory, self.trainer, self.step, self.evaluate = directory, trainer, step, evaluate
        self.stop_control = StopControl(directory, trainer)
        self.checkpoints = CheckpointManager(directory / "checkpoints", trainer, self.stop_control)
        self.point, self.epoch_progress = self.checkpoints.restore()
        self.results = results.Writer(directory, trainer, list(self.checkpoints.epochs))
        self.feed = Feed(trainer)

    def run(self) -> str:
        """Train, and return the reason for the end.

        All ranks return together, so that none ends before the others.
        """
        trainer = self.trainer
        if self.point and self.point.trained and self.point.epoch > len(self.point.epochs):
            self._finish_epoch(self.point.trained)
        trainer.ended = trainer.ended or stop_conditions.of_resumed_run(trainer, self.results.results.epochs)
        while trainer.epoch < trainer.config.epochs and not trainer.ended:
            trainer.epoch += 1
            self._run_epoch()
            if trainer.epoch < trainer.config.epochs and not trainer.ended:
                trainer.ended = stop_conditions.stop_reason(trainer, self.stop_control.agree())
        ended = trainer.ended or "epochs"
        self.results.end(ended, self._unfinished())
        trainer.profile.write(self.directory, trainer.config)
        if ended in ("max-time", "terminated"):
            results.say(f"{ended} after step {trainer.step}")
        problem = self._save_model() if trainer.config.save_model and ended != "terminated" else ""
        hvd.allgather_object(None)
        if problem:
            sys.exit(problem)
        return ended

    def _save_model(self) -> str:
        """Let rank 0 write the trained network; return there why it could not, and elsewhere nothing."""
        # They still differ by rank if the run resumed a checkpoint within an epoch and had no step left to make.
        averages_over_ranks.average_statistics(self.trainer.model)
        if hvd.rank() == 0:
            try:
                saved_model.write(self.directory, self.trainer.config, self.trainer.model)
            except saved_model.NotWritten as error:
                return str(error)
        return ""

    def _run_epoch(self) -> None:
        trainer = self.trainer
        sums, clock = self._train_epoch()
        whole = trainer.epoch_step == trainer.steps_per_epoch
        if not whole:
            images = self._save_within_epoch(sums, clock)
            if trainer.ended == "terminated" or (trainer.ended == "max-time" and not images):
                return
        trained = self._combine_training(sums, clock)
        if whole:
            self.checkpoints.save({}, trained)
        if trainer.ended in (None, "steps") or (
            trainer.ended == "max-time" and self.stop_control.ranks_have_time_for("evaluation")
        ):
            self._finish_epoch(trained)

    def _train_epoch(self) -> "tuple[tf.Tensor, results.Clock]":
        """Train the epoch; return the rank's sums of scores and its clock, with a resumed run's part of the epoch."""
        trainer, before = self.trainer, self._resumed_progress()
        sums, clock = tf.constant(before["sums"]), results.Clock(trainer, before["timing"].tolist())
        self.stop_control.start_call()
        trainer.profile.pause()
        for batch in trainer.telemetry.epoch(trainer.epoch, self.feed.epoch()):
            images, labels = batch.result()
            rates = np.array(trainer.rates(trainer.step, len(labels) // trainer.batch), np.float32)
            sums, times, votes = self.step(images, labels, rates, self.stop_control.votes(), sums)
            trainer.step += len(rates)
            clock.tick(sums)
            with trainer.telemetry.measure_agreement():
                if trainer.step % nonfinite.CHECK_STEPS < len(rates):
                    averages_over_ranks.sum_scores(trainer, sums, "training")
            trainer.telemetry.step(trainer.step, float(rates[-1]), self._exchange(times.numpy()), len(rates))
            self.stop_control.end_call(len(rates))
            decision = StopVotes(*votes.numpy().tolist())
            self.feed.steps = decision.steps
            trainer.ended = stop_conditions.stop_reason(trainer, decision)
            if trainer.ended:
                break
            if decision.checkpoint and trainer.epoch_step < trainer.steps_per_epoch:
                self._save_within_epoch(sums, clock)
        return sums, clock

    def _exchange(self, times: np.ndarray) -> Exchange:
        """Measure the exchange of gradients in the steps of a call; on one rank, record ``times`` instead."""
        if hvd.size() > 1:
            return step_times.exchange(times)
        self.trainer.profile.record(times)
        return Exchange()

    def _resumed_progress(self) -> Arrays:
        """Return the sums and times of this epoch from the resumed run, once; zeros afterwards."""
        epoch_progress, self.epoch_progress = self.epoch_progress, {}
        return {"sums": np.zeros(4, np.float32), "timing": np.zeros(3), **epoch_progress}

    def _save_within_epoch(self, sums: tf.Tensor, clock: results.Clock) -> float:
        """Write a checkpoint within the epoch and return the number of images that count so far.

        Its time counts for no step on any rank. Ends the program of every rank if the loss is not a number.
        """
        trainer, timing = self.trainer, np.array(clock.timing)
        with clock.pause(), trainer.telemetry.pause():
            *_, images = averages_over_ranks.sum_scores(trainer, sums, "training")
            self.checkpoints.save({"sums": sums.numpy(), "timing": timing})
            hvd.allgather_object(None)  # rank 0 writes: the other ranks would wait for it in their next step
        trainer.profile.pause()
        return images

    def _combine_training(self, sums: tf.Tensor, clock: results.Clock) -> Trained:
        """Combine the epoch's training over all ranks; afterwards they have the same batch normalisation statistics."""
        trainer, telemetry, seconds = self.trainer, self.trainer.telemetry, clock.seconds
        train = averages_over_ranks.scores(trainer, sums, "training")
        averages_over_ranks.average_statistics(trainer.model)
        telemetry.scores("train", train.loss, train.top1)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        times = telemetry.times
        every = hvd.allgather_object((clock.rate, peak, times.mean, times.hidden_share, times.median))
        rates, peaks, parts, hidden, medians = zip(*every, strict=True)
        measured = [part for part in parts if part]
        return Trained(
            epoch=trainer.epoch,
            steps=trainer.step,
            learning_rate=trainer.rates(trainer.step - 1, 1)[0],
            train=train,
            images_per_second=sum(rates),
            images_per_second_per_rank=list(rates),
            peak_memory_per_rank=list(peaks),
            seconds=seconds,
            input_seconds=[part.input for part in measured],
            compute_seconds=[part.compute for part in measured],
            communication_seconds=[part.communication for part in measured],
            hidden_communication=[share for share in hidden if share is not None],
            median_step_seconds=medians[0],
        )

    def _finish_epoch(self, trained: Trained) -> None:
        """Evaluate and add the epoch to the results, unless the run was asked to end during the evaluation."""
        started = time.perf_counter()
        with self.stop_control.measure("evaluation"):
            test = evaluation.scores(self.trainer, self.stop_control, self.evaluate, self.feed.test())
        if test is None:
            self.trainer.ended = "terminated"
            return
        seconds = time.perf_counter() - started
        self.trainer.telemetry.scores("test", test.loss, test.top1)
        digest = averages_over_ranks.digest(self.trainer.model)
        epoch = Epoch(**trained.model_dump(), test=test, test_seconds=seconds, weights_sha256=digest)
        self.results.add(epoch)
        if self.trainer.epoch_step == self.trainer.steps_per_epoch:
            self.checkpoints.add_evaluation(epoch)
            self.trainer.ended = stop_conditions.after_epoch(self.trainer, test.top1)

    def _unfinished(self) -> "Unfinished | None":
        """Return how the steps of the last epoch were split if it is not in the results; a collective call."""
        telemetry, finished = self.trainer.telemetry, [epoch.epoch for epoch in self.results.results.epochs]
        if self.trainer.epoch in finished or telemetry.times.mean is None:
            return None
        ranks = hvd.allgather_object(telemetry.times.mean)
        times = {f"{name}_seconds": [getattr(rank, name) for rank in ranks] for name in StepTimes._fields}
        return Unfinished(steps=telemetry.times.counted, **times)
