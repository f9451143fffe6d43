"""Profile of a run of one rank: the seconds of its steps, and when its gradients are ready.

Predictions of runs on more ranks are made from it (docs/guide/prediction.md).
"""

from pathlib import Path

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from orchestrator.schema import Profile, Ready, TrainConfig
from orchestrator.trainer.comm import compressed
from orchestrator.trainer.tensorflow_operations import clock

FILE = "profile.json"
PARTS, LEAST_BYTES = 8, 1 << 20  # parts of the gradients that are timed separately, and the least bytes of each
MOST_STEPS = 512


class StepProfile:
    """Times of the first MOST_STEPS steps at which parts of the gradients were ready."""

    def __init__(self) -> None:
        self._bytes: list[int] = []
        self._times: list[np.ndarray] = []
        self._pauses: set[int] = set()

    def watch(self, gradients: list[tf.Tensor]) -> tf.Tensor:
        """Return the times at which parts of ``gradients`` are ready, float64 (parts). For compiled functions."""
        sizes = [4 * gradient.shape.num_elements() for gradient in gradients]
        parts = compressed.pack(sizes, max(LEAST_BYTES, sum(sizes) / PARTS))
        self._bytes = [sum(sizes[index] for index in part) for part in parts]
        with tf.device("CPU:0"):
            return tf.stack([clock.read([gradients[index] for index in part]) for part in parts])

    def record(self, times: np.ndarray) -> None:
        """Record what :meth:`watch` returned in the steps of a call, float64 (steps, parts)."""
        self._times += list(times[: MOST_STEPS + 1 - len(self._times)])

    def pause(self) -> None:
        """Exclude the next step: an evaluation, a checkpoint or tracing precedes it."""
        self._pauses.add(len(self._times))

    def result(self, config: TrainConfig) -> "Profile | None":
        """Return the profile; None without two steps in a row."""
        marks = np.array(self._times)
        last = marks.max(axis=1) if marks.size else np.array([])
        counted = [step for step in range(1, len(last)) if step not in self._pauses]
        if not counted:
            return None
        before = np.median(last[counted, None] - marks[counted], axis=0)
        return Profile(
            run=config.run,
            model=config.model,
            dataset=config.dataset,
            image_size=config.image_size,
            classes=config.classes,
            batch=config.batch_size,
            precision=config.precision,
            threads=config.threads,
            on_gpu=bool(tf.config.get_visible_devices("GPU")),
            gradients=[Ready(size, float(seconds)) for size, seconds in zip(self._bytes, before, strict=True)],
            steps=[float(last[step] - last[step - 1]) for step in counted],
        )

    def write(self, directory: Path, config: TrainConfig) -> None:
        """Write the profile of a run of one rank and one backward pass per step; nothing otherwise."""
        if hvd.size() == 1 and config.backward_passes_per_step == 1 and (profile := self.result(config)):
            profile.write(directory / FILE)
