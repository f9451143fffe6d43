"""Table of all metrics of a training run: names, help, units, labels, buckets, and how each is measured.

Names and units follow Prometheus' conventions (https://prometheus.io/docs/practices/naming/). ``docs/metrics.md`` is
generated from this table. Standard library only.
"""

from dataclasses import dataclass
from typing import Literal

RUN = ("run", "model", "dataset", "rank")
# Seconds: 1 ms is a small network on a GPU, a minute is a large one on a laptop.
STEP = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
CHECKPOINT = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0)  # seconds


@dataclass(frozen=True)
class Metric:
    """One metric. ``unit`` is in words; ``buckets`` are a histogram's upper bounds; ``measured`` is documentation."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    unit: str
    measured: str
    labels: tuple[str, ...] = RUN
    buckets: tuple[float, ...] = ()

    @property
    def family(self) -> str:
        """Name as in `prometheus_client`, which drops ``_total`` from a counter's name."""
        return self.name.removesuffix("_total") if self.kind == "counter" else self.name


IMAGES = Metric(
    "orchestrator_training_images_total",
    "counter",
    "Images this rank trained on.",
    "images",
    "The batch, added after each step. Evaluation does not count.",
)
STEP_SECONDS = Metric(
    "orchestrator_training_step_seconds",
    "histogram",
    "Time of a whole training step.",
    "seconds",
    "The host's monotonic clock, from the end of one step to the end of the next; an epoch's first begins where its"
    " input is asked for. If a call has several short steps, each counts as their mean."
    " The first step of a run, which prepares the others, and checkpoints within an epoch are left out.",
    buckets=STEP,
)
STEP_PART_SECONDS = Metric(
    "orchestrator_training_step_part_seconds",
    "histogram",
    "Time of a training step by what it went to; the parts add up to the step.",
    "seconds",
    "See *How a step is split*.",
    labels=(*RUN, "part"),
    buckets=STEP,
)
FIRST_STEP_SECONDS = Metric(
    "orchestrator_training_first_step_seconds",
    "gauge",
    "Time of the run's first step, in which TensorFlow prepares its operations.",
    "seconds",
    "As the other steps, which leave it out.",
)
BATCH_SIZE = Metric(
    "orchestrator_training_batch_size",
    "gauge",
    "Images per rank and step.",
    "images",
    "Fixed when training begins. Its labels say what else decides how much a rank computes per image.",
    labels=(*RUN, "image_size", "precision"),
)
LOSS = Metric(
    "orchestrator_training_loss",
    "gauge",
    "Mean loss, latest known.",
    "nats",
    "`train`: mean of this rank's images of the epoch so far, set whenever a progress line reads it, at most once a"
    " second; at the end of an epoch the mean over all ranks. `test`: mean over the whole test split after each epoch.",
    labels=(*RUN, "split"),
)
TOP1 = Metric(
    "orchestrator_training_top1_ratio",
    "gauge",
    "Share of images whose most likely class is the right one, latest known.",
    "ratio, 0 to 1",
    "As the loss.",
    labels=(*RUN, "split"),
)
EPOCH = Metric("orchestrator_training_epoch", "gauge", "Current epoch, from 1.", "epochs", "Set as an epoch begins.")
EPOCHS = Metric(
    "orchestrator_training_epochs",
    "gauge",
    "Epochs planned.",
    "epochs",
    "From the run's settings; fewer if --steps ends the run earlier.",
)
PROGRESS = Metric(
    "orchestrator_training_progress_ratio",
    "gauge",
    "Steps done of all that are planned.",
    "ratio, 0 to 1",
    "Set after each step. A run may end earlier, at --max-time or --until.",
)
START_PROGRESS = Metric(
    "orchestrator_training_start_progress_ratio",
    "gauge",
    "Steps that runs before had done of all that are planned.",
    "ratio, 0 to 1",
    "Fixed when training begins: above 0 if the run resumes another.",
)
START_TIME = Metric(
    "orchestrator_training_start_time_seconds",
    "gauge",
    "When training began.",
    "seconds since 1970",
    "The host's clock once the model is built and the data found.",
)
LEARNING_RATE = Metric(
    "orchestrator_training_learning_rate", "gauge", "Learning rate of the latest step.", "", "Set after each step."
)
WORLD_SIZE = Metric("orchestrator_training_world_size", "gauge", "Ranks of the run.", "ranks", "Horovod's size.")
REDUCED_BYTES = Metric(
    "orchestrator_training_reduced_bytes_total",
    "counter",
    "Bytes of gradients this rank gave to allreduce.",
    "bytes",
    "Size of all gradients, as compressed, added after each step; 0 on one rank. What crosses the network depends on"
    " the algorithm: a ring sends 2 (n - 1) / n of it per rank.",
)
CHECKPOINT_SECONDS = Metric(
    "orchestrator_training_checkpoint_seconds",
    "histogram",
    "Time to write a checkpoint.",
    "seconds",
    "The host's monotonic clock around each; rank 0 alone writes them.",
    buckets=CHECKPOINT,
)
RESTARTS = Metric(
    "orchestrator_training_restarts_total",
    "counter",
    "Times this rank of the run was restarted.",
    "restarts",
    "`restarts` of the run's config.json.",
)
TRAINING = (IMAGES, STEP_SECONDS, STEP_PART_SECONDS, FIRST_STEP_SECONDS, BATCH_SIZE, LOSS, TOP1, EPOCH, EPOCHS,
            PROGRESS, START_PROGRESS, START_TIME, LEARNING_RATE, WORLD_SIZE, REDUCED_BYTES, CHECKPOINT_SECONDS,
            RESTARTS)  # fmt: skip

INTERFACE = Metric(
    "orchestrator_node_training_interface_info",
    "gauge",
    "1; its label names the interface that training uses.",
    "",
    "`launch.network_interface` of the last deploy; else the one with the node's private address, looked up at every"
    " scrape. Joins with node_network_* on (node) and device.",
    labels=("interface",),
)
