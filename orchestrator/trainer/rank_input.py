"""Input of a rank: batches for training and evaluation, several per call."""

import sys
from collections.abc import Iterator
from typing import Any

import horovod.tensorflow as hvd

from orchestrator.trainer.data import pipeline
from orchestrator.trainer.data.bad_samples import OnSkip
from orchestrator.trainer.rank_setup import Trainer


class Feed:
    """Input of one rank; ``steps`` is the number of batches per call and may be changed at any time."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer, self.steps = trainer, 1

    def epoch(self) -> Iterator[Any]:
        """Yield the rest of the epoch, ``self.steps`` batches at once."""
        while True:
            steps = self.steps
            for group in self._batches(steps):
                yield group
                if self.steps != steps:
                    break
            else:
                return

    def test(self) -> Iterator[Any]:
        """Return the batches of this rank's share of the test split."""
        trainer = self.trainer
        indices = trainer.test_split.part(hvd.size(), hvd.rank())
        return iter(trainer.test_split.batches(indices, trainer.images_per_pass, 0, False, self._on_skip()))

    def _batches(self, steps: int) -> Iterator[Any]:
        """Return the remaining batches of this rank's epoch, ``steps`` at once; fewer at the end."""
        trainer, config = self.trainer, self.trainer.config
        rank_indices = trainer.train_split.share(config.seed, trainer.epoch, hvd.size(), hvd.rank())
        last = min(trainer.steps_per_epoch, trainer.epoch_step + (config.steps or sys.maxsize) - trainer.step)
        indices = rank_indices[trainer.epoch_step * trainer.batch : last * trainer.batch]
        seed = config.seed + trainer.epoch
        batches = trainer.train_split.batches(indices, steps * trainer.batch, seed, steps == 1, self._on_skip())
        return pipeline.prefetch_to_device(batches, pipeline.accelerator())

    def _on_skip(self) -> "OnSkip | None":
        """Return the callback for unreadable samples if the run skips them, else None."""
        return self._report_skipped if self.trainer.config.on_bad_sample == "skip" else None

    def _report_skipped(self, sample: str, reason: str) -> None:
        trainer = self.trainer
        trainer.damaged.append(sample)
        print(f"rank {hvd.rank()} {trainer.position}: skipped {sample}: {reason}", file=sys.stderr, flush=True)
