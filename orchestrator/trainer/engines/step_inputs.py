"""Samples of each step and its learning rate, the same for every engine."""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from orchestrator.schema import TrainConfig
from orchestrator.trainer.data import in_memory
from orchestrator.trainer.data.in_memory import Arrays
from orchestrator.trainer.data.inspection import DataError
from orchestrator.trainer.data.sample_order import epoch_order
from orchestrator.trainer.optim import schedule


@dataclass(frozen=True)
class Course:
    """Samples and learning rates of one rank, as in ``train``.

    Attributes:
        batch: Images of this rank per step.
        steps_per_epoch: Steps of every rank in a whole epoch.
        scale: Factor on the learning rate of one batch.
    """

    config: TrainConfig
    rank: int
    world: int
    train: Arrays
    test: Arrays
    batch: int
    steps_per_epoch: int
    scale: int

    @property
    def total_steps(self) -> int:
        return min(self.config.epochs * self.steps_per_epoch, self.config.steps or sys.maxsize)

    @property
    def epochs(self) -> range:
        """Numbers of the epochs, from 1."""
        return range(1, -(-self.total_steps // self.steps_per_epoch) + 1)

    def batches(self, epoch: int) -> np.ndarray:
        """Return the samples of this rank's steps of an epoch: int64 (steps, batch)."""
        steps = min(self.steps_per_epoch, self.total_steps - (epoch - 1) * self.steps_per_epoch)
        samples = epoch_order(len(self.train[1]), self.config.seed, epoch)[self.rank :: self.world]
        return samples[: steps * self.batch].reshape(steps, self.batch)

    def test_batches(self) -> list[np.ndarray]:
        """Return the samples that this rank evaluates, a batch each; the last may be shorter."""
        samples = np.arange(self.rank, len(self.test[1]), self.world)
        return [samples[first : first + self.batch] for first in range(0, len(samples), self.batch)]

    def rate(self, step: int) -> float:
        """Return the learning rate of a step of the run, from 0."""
        return schedule.learning_rate(self.config, self.scale, self.steps_per_epoch, step)

    @property
    def peak(self) -> float:
        """Return the highest learning rate of the schedule."""
        return schedule.peak(self.config, self.scale)


def read_config(run_directory: Path) -> TrainConfig:
    return TrainConfig.model_validate_json((run_directory / "config.json").read_text())


def load(config: TrainConfig, rank: int, world: int, scale: "int | None" = None) -> Course:
    """Read the samples; ends the program if they are missing, or fewer than there are ranks.

    Args:
        config: Configuration of the run.
        rank: Number of this rank.
        world: Number of ranks.
        scale: Factor on the learning rate of one batch; the number of ranks if None.

    Returns:
        The rank's course.
    """
    try:
        train, test = in_memory.read(config)
    except DataError as error:
        sys.exit(f"rank {rank}: {error}")
    size = len(train[1])
    if size < world:
        sys.exit(f"{size} training images for {world} ranks: use --np {size} or fewer")
    batch = min(config.batch_size, size // world)
    return Course(config, rank, world, train, test, batch, max(1, size // (world * batch)), scale or world)
