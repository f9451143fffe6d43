"""Setup of one rank: its device, model, optimizer and share of the data."""

import math
import sys
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import horovod.tensorflow as hvd
import keras
import tensorflow as tf

from orchestrator.schema import TrainConfig
from orchestrator.trainer import gpu_of_rank
from orchestrator.trainer.autotune import choose_convolutions, choose_exchange, choose_precision, choose_xla
from orchestrator.trainer.comm import allreduce, compressed
from orchestrator.trainer.data import batches, local_copy
from orchestrator.trainer.models import he_initializer, networks_by_name
from orchestrator.trainer.optim import optimizers, schedule
from orchestrator.trainer.optim.nonfinite import Guard
from orchestrator.trainer.step_profile import StepProfile
from orchestrator.trainer.telemetry import recorder

# With one thread, sending a gradient waits for the end of backpropagation: TensorFlow's executor first follows the
# chain that it is on. The threads within operations share the cores, so a second one takes none.
OPERATIONS_AT_ONCE = 2


@dataclass
class Trainer:
    """Model, optimizer and data of one rank for the duration of a run.

    Attributes:
        batch: Images of this rank per step, in ``passes`` passes of ``images_per_pass`` images.
        steps_per_epoch: Steps of every rank in an epoch.
        epoch: Number of the current epoch, from 1; 0 before the first.
        step: Steps of the run that are done.
        steps_before: Steps among them that were done by the run which this one continues.
        resumable: Whether the run has a checkpoint.
        ended: Why the run stops before its last epoch; None while it continues.
        data_path: Directory that the data are read from.
        damaged: Samples that this rank could not read and skipped.
        chosen: Keys of ``config`` that were "auto".
        profile: Times of steps of a single rank.
        drawn: Ends when the model's weights are drawn.
    """

    config: TrainConfig
    model: keras.Model
    optimizer: keras.optimizers.Optimizer
    train_split: batches.Split
    test_split: batches.Split
    batch: int
    steps_per_epoch: int
    epoch: int = 0
    step: int = 0
    steps_before: int = 0
    resumable: bool = False
    ended: "str | None" = None
    data_path: "str | None" = None
    damaged: list[str] = field(default_factory=list)
    chosen: list[str] = field(default_factory=list)
    profile: StepProfile = field(default_factory=StepProfile)
    drawn: "Future[None] | None" = None

    @property
    def passes(self) -> int:
        return self.config.backward_passes_per_step

    @property
    def images_per_pass(self) -> int:
        """Images per forward pass."""
        return self.batch // self.passes

    @property
    def test_batches(self) -> int:
        """Batches of an evaluation on the rank with the most."""
        return math.ceil(self.test_split.size / (hvd.size() * self.images_per_pass))

    @property
    def epoch_step(self) -> int:
        """Completed steps of the current epoch."""
        return self.step - (self.epoch - 1) * self.steps_per_epoch

    @cached_property
    def telemetry(self) -> recorder.Recorder:
        """Recorder of this training's telemetry; first accessed once ``steps_before`` is set."""
        plan = recorder.Plan(
            rank=hvd.rank(),
            world=hvd.size(),
            batch=self.batch,
            epochs=self.epochs,
            steps=self.total_steps,
            reduced_bytes=allreduce.size([v.shape for v in self.variables], self.config),
            steps_before=self.steps_before,
        )
        return recorder.Recorder(self.config, plan)

    @cached_property
    def guard(self) -> Guard:
        """Guard that keeps steps whose loss is not a number from changing the model, if they are to be skipped."""
        return Guard(self.config.on_nan == "skip", self.model, self.optimizer)

    @property
    def total_steps(self) -> int:
        """Planned number of steps; a time limit is not counted."""
        return min(self.config.steps or sys.maxsize, self.config.epochs * self.steps_per_epoch)

    @property
    def epochs(self) -> int:
        """Planned number of epochs, the last of which may be cut short."""
        return math.ceil(self.total_steps / self.steps_per_epoch)

    @property
    def position(self) -> str:
        """Step and epoch of the run, for messages."""
        return f"after step {self.step} (epoch {self.epoch})"

    def rates(self, first: int, steps: int) -> list[float]:
        """Return the learning rates of ``steps`` steps of the run, the first of which has the number ``first``."""
        numbers, scale = range(first, first + steps), allreduce.scale(self.config)
        return [schedule.learning_rate(self.config, scale, self.steps_per_epoch, number) for number in numbers]

    @property
    def variables(self) -> list[tf.Variable]:
        return [variable.value for variable in self.model.trainable_variables]


def prepare(config: TrainConfig) -> TrainConfig:
    """Set threads, GPU, determinism and precision before TensorFlow creates anything.

    Return ``config`` with the precision that the ranks chose together.
    """
    tf.config.threading.set_intra_op_parallelism_threads(config.threads)
    tf.config.threading.set_inter_op_parallelism_threads(OPERATIONS_AT_ONCE)
    gpu_of_rank.choose_for_tensorflow(hvd.local_rank())
    tf.config.experimental.enable_op_determinism()
    precision = choose_precision.choose(config.precision, config.threads)
    if precision != "float32":
        keras.mixed_precision.set_dtype_policy(f"mixed_{precision}")
    return config.model_copy(update={"precision": precision})


def build(config: TrainConfig, directory: Path) -> Trainer:
    """Build the same model and optimizer on every rank; ends the program if there are more ranks than images.

    ``directory`` is the run's. Before the first step, call :func:`share_weights`.
    """
    data_path = local_copy.nearest(config.data)
    train_split, test_split = batches.load(config.model_copy(update={"data": data_path}))
    passes, share = config.backward_passes_per_step, train_split.size // hvd.size()
    if share < passes:
        most = train_split.size // passes
        sys.exit(f"{train_split.size} training images for {hvd.size()} ranks: use --np {most} or fewer")
    config = schedule.with_batch(config, share // passes)
    batch = config.batch_size * passes
    steps = max(1, train_split.size // (hvd.size() * batch))
    planned = min(config.steps or sys.maxsize, config.epochs * steps)
    config = config.model_copy(update={"xla": choose_xla.choose(config, planned * batch)})
    with he_initializer.postponed():
        model = networks_by_name.build(config.model, config.image_size, config.channels, config.classes, config.seed)
    if config.xla:
        networks_by_name.prepare_for_xla(model)
    choices = choose_convolutions.choose(config, model, config.batch_size)
    gradients = sum(4 * math.prod(variable.shape) for variable in model.trainable_variables)
    config = choose_exchange.choose(config.model_copy(update={"convolutions": choices}), directory, gradients)
    drawn = he_initializer.draw_in_background(model)
    optimizer = optimizers.build(config)
    optimizer.build(model.trainable_variables)
    trainer = Trainer(config, model, optimizer, train_split, test_split, batch, steps)
    trainer.data_path, trainer.drawn = data_path, drawn
    return trainer


def share_weights(trainer: Trainer) -> None:
    """Wait until the weights are drawn, and copy those of rank 0 to every rank. A collective call."""
    if trainer.drawn:
        trainer.drawn.result()
    compressed.broadcast_variables([v.value for v in [*trainer.model.variables, *trainer.optimizer.variables]])
    networks_by_name.offset_dropout_seeds(trainer.model, hvd.rank())
