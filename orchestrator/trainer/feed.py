"""What a rank is given to train on and to be tested with: batches, several at once, and the learning rates of steps."""

import sys
from collections.abc import Iterator
from typing import Any

import horovod.tensorflow as hvd
import numpy as np

from orchestrator.trainer import reduction, schedule
from orchestrator.trainer.data import pipeline
from orchestrator.trainer.data.blame import Skipped
from orchestrator.trainer.setup import Trainer


class Feed:
    """For one rank; ``steps`` is how many batches a call is to take now, which may be set at any time."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer, self.steps = trainer, 1

    def rates(self, steps: int) -> np.ndarray:
        """The learning rates of the next steps."""
        trainer, scale = self.trainer, reduction.scale(self.trainer.config)
        numbers = range(trainer.step, trainer.step + steps)
        rates = [schedule.learning_rate(trainer.config, scale, trainer.steps_per_epoch, number) for number in numbers]
        return np.array(rates, np.float32)

    def epoch(self) -> Iterator[Any]:
        """What is left of the epoch, so many batches at once as a call is to take now."""
        while True:
            steps = self.steps
            for group in self._batches(steps):
                yield group
                if self.steps != steps:
                    break
            else:
                return

    def test(self) -> Iterator[Any]:
        """The rank's batches of what is held out."""
        trainer = self.trainer
        mine = trainer.test_split.part(hvd.size(), hvd.rank())
        return iter(trainer.test_split.batches(mine, trainer.part, 0, False, self._skipped()))

    def _batches(self, steps: int) -> Iterator[Any]:
        """The rank's batches of the epoch that are not done yet, ``steps`` at once; fewer at the end."""
        trainer, config = self.trainer, self.trainer.config
        mine = trainer.train_split.share(config.seed, trainer.epoch, hvd.size(), hvd.rank())
        last = min(trainer.steps_per_epoch, trainer.done + (config.steps or sys.maxsize) - trainer.step)
        todo, seed = mine[trainer.done * trainer.batch : last * trainer.batch], config.seed + trainer.epoch
        found = trainer.train_split.batches(todo, steps * trainer.batch, seed, steps == 1, self._skipped())
        return pipeline.ahead(found, pipeline.accelerator())

    def _skipped(self) -> "Skipped | None":
        """Who is told of a sample that cannot be read, where the run is to go on without it."""
        return self._name_damaged if self.trainer.config.on_damage == "skip" else None

    def _name_damaged(self, sample: str, reason: str) -> None:
        trainer = self.trainer
        trainer.damaged.append(sample)
        place = f"rank {hvd.rank()} after step {trainer.step} (epoch {trainer.epoch})"
        print(f"{place}: goes on without {sample}: {reason}", file=sys.stderr, flush=True)
