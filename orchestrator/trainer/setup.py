"""What one rank trains with: its device, its model, its optimizer, its share of the data."""

import math
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import horovod.tensorflow as hvd
import keras
import tensorflow as tf

from orchestrator.schema import TrainConfig
from orchestrator.trainer import arithmetic, cycle, exchange, link, models, optimizers, reduction
from orchestrator.trainer.data import datasets, staged
from orchestrator.trainer.skipping import Guard
from orchestrator.trainer.watching import telemetry

# By one thread, what sends a gradient waits until backpropagation is through: TensorFlow's executor first follows the
# chain that it is on. Cores are shared by the threads within operations, so a second one takes none.
OPERATIONS_AT_ONCE = 2


@dataclass
class Trainer:
    """One rank's model, optimizer and data, for as long as a run lasts.

    A step takes ``batch`` images of the rank, in ``passes`` parts of ``part`` images. ``step`` steps of the run are
    done, ``first`` of them by a run that this one continues. ``chosen`` are the keys of ``config`` that were "auto".
    """

    config: TrainConfig
    model: keras.Model
    optimizer: keras.optimizers.Optimizer
    train_split: datasets.Split
    test_split: datasets.Split
    batch: int
    steps_per_epoch: int
    started: float
    epoch: int = 0
    step: int = 0
    first: int = 0
    ended: "str | None" = None
    data_path: "str | None" = None
    damaged: list[str] = field(default_factory=list)
    chosen: list[str] = field(default_factory=list)
    _guard: "Guard | None" = None
    _record: "telemetry.Recorder | None" = None

    @property
    def passes(self) -> int:
        return self.config.backward_passes_per_step

    @property
    def part(self) -> int:
        """Images that the model sees at once."""
        return self.batch // self.passes

    @property
    def done(self) -> int:
        """Steps of the epoch that are done."""
        return self.step - (self.epoch - 1) * self.steps_per_epoch

    @property
    def record(self) -> telemetry.Recorder:
        """What is said of the training while it goes on; asked for first once ``first`` is known."""
        self._record = self._record or telemetry.Recorder(self.config, self._plan)
        return self._record

    @property
    def guard(self) -> Guard:
        """What keeps steps whose loss is no number from changing anything, where they are to be skipped."""
        self._guard = self._guard or Guard(self.config.on_nan == "skip", self.model, self.optimizer)
        return self._guard

    @property
    def epochs(self) -> int:
        """How many there will be, unless time is up before: a number of steps may end the run in an earlier one."""
        if self.config.steps is None:
            return self.config.epochs
        return min(self.config.epochs, math.ceil(self.config.steps / self.steps_per_epoch))

    @property
    def _plan(self) -> telemetry.Plan:
        return telemetry.Plan(
            rank=hvd.rank(),
            world=hvd.size(),
            batch=self.batch,
            epochs=self.epochs,
            steps=min(self.config.steps or sys.maxsize, self.config.epochs * self.steps_per_epoch),
            reduced_bytes=reduction.size([v.shape for v in self.variables], self.config),
            first=self.first,
        )

    @property
    def variables(self) -> list[tf.Variable]:
        return [variable.value for variable in self.model.trainable_variables]


def prepare(config: TrainConfig, directory: Path) -> TrainConfig:
    """Threads, the rank's GPU where there is one, determinism, precision: before TensorFlow makes anything.

    Gives ``config`` with the precision and the compression that the ranks of the run in ``directory`` settled on.
    """
    tf.config.threading.set_intra_op_parallelism_threads(config.threads)
    tf.config.threading.set_inter_op_parallelism_threads(OPERATIONS_AT_ONCE)
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        tf.config.set_visible_devices(gpus[hvd.local_rank() % len(gpus)], "GPU")
    tf.config.experimental.enable_op_determinism()
    cycle.tune()
    precision = arithmetic.settle(config.precision, config.threads)
    if precision != "float32":
        keras.mixed_precision.set_dtype_policy(f"mixed_{precision}")
    config = config.model_copy(update={"precision": precision})
    return config.model_copy(update={"compression": link.compression(config, directory)})


def build(config: TrainConfig) -> Trainer:
    """The same model and optimizer on every rank; ends the program where there are more ranks than images."""
    data_path = staged.nearest(config.data)
    train_split, test_split = datasets.load(config.model_copy(update={"data": data_path}))
    passes, share = config.backward_passes_per_step, train_split.size // hvd.size()
    if share < passes:
        most = train_split.size // passes
        sys.exit(f"{train_split.size} training images for {hvd.size()} ranks: use --np {most} or fewer")
    batch = min(config.batch_size, share // passes) * passes
    model = models.build(config.model, config.image_size, config.channels, config.classes, config.seed)
    optimizer = optimizers.build(config)
    optimizer.build(model.trainable_variables)
    exchange.from_first([v.value for v in [*model.variables, *optimizer.variables]])
    models.draw_apart(model, hvd.rank())
    steps = max(1, train_split.size // (hvd.size() * batch))
    started = time.monotonic()
    return Trainer(config, model, optimizer, train_split, test_split, batch, steps, started, data_path=data_path)
