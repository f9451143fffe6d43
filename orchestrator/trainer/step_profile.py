"""Profile of a run of one rank: the seconds of its steps, and when its gradients are ready.

Predictions of runs on more ranks are made from it (docs/guide/prediction.md). It costs a few Python calls per step, as
the clocks of a run on several ranks do (``comm/allreduce``).
"""

import time
from pathlib import Path

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from orchestrator.schema import Profile, Ready, TrainConfig
from orchestrator.trainer.comm import allreduce

FILE = "profile.json"
PARTS, LEAST_BYTES = 8, 1 << 20  # parts of the gradients that are timed apart, each of at least so many bytes
MOST_STEPS = 512


class StepProfile:
    """Times of the first MOST_STEPS steps at which parts of the gradients were ready."""

    def __init__(self) -> None:
        self._bytes: list[int] = []
        self._times: list[list[float]] = []
        self._tensors = 0
        self._pauses: set[int] = set()

    def watch(self, gradients: list[tf.Tensor]) -> None:
        """Time when ``gradients`` are ready, on one rank. For compiled functions."""
        if hvd.size() > 1:
            return
        sizes = [4 * gradient.shape.num_elements() for gradient in gradients]
        parts = allreduce.pack(sizes, max(LEAST_BYTES, sum(sizes) / PARTS))
        self._tensors = len(gradients)
        self._bytes = [sum(sizes[index] for index in part) for part in parts]
        self._times = [[] for _ in parts]
        for number, part in enumerate(parts):
            with tf.control_dependencies([gradients[index] for index in part]):
                computed = tf.reshape(gradients[part[-1]], [-1])[0]  # on a GPU the others were only launched
            tf.numpy_function(lambda _, number=number: self._record(number), [computed], tf.float64)

    def _record(self, part: int) -> np.float64:
        now = time.perf_counter()
        if len(self._times[part]) <= MOST_STEPS:
            self._times[part].append(now)
        return np.float64(now)

    def pause(self) -> None:
        """Do not count the step that begins now: evaluation, a checkpoint or tracing goes on before it."""
        self._pauses.add(min(map(len, self._times), default=0))

    def result(self, config: TrainConfig) -> "Profile | None":
        """Return the profile; None without two steps in a row."""
        marks = np.array([times[: min(map(len, self._times))] for times in self._times]).T
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
            tensors=self._tensors,
            gradients=[Ready(size, float(seconds)) for size, seconds in zip(self._bytes, before, strict=True)],
            steps=[float(last[step] - last[step - 1]) for step in counted],
        )

    def write(self, directory: Path, config: TrainConfig) -> None:
        """Write the profile of a run of one rank and one backward pass per step; nothing otherwise."""
        if hvd.size() == 1 and config.backward_passes_per_step == 1 and (profile := self.result(config)):
            profile.write(directory / FILE)
