"""The contestants of ``bench.train``, each measured in images/s of its own process in its own container."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field

from bench import train_ours as ours
from bench import train_place
from bench.harness import interleaved
from bench.train_ours import EPOCHS, Work
from bench.train_place import Place
from orchestrator.cluster import PYTHON

NEAR = 0.01  # relative difference in parameters of two forms of a network
Contestants = dict[str, Callable[[], float]]


@dataclass(frozen=True)
class Sitting:
    """A session of measurements; ``parameters`` has the sizes of the trainer's networks measured so far."""

    place: Place
    rounds: int
    parameters: dict[str, int] = field(default_factory=dict)

    @property
    def threads(self) -> int:
        return len(self.place.cores)

    def compare(self, contestants: Contestants) -> dict[str, list[float]]:
        return interleaved(contestants, self.rounds)

    def ours(self, work: Work, precision: str | None = None) -> float:
        found = ours.alone(self.place, ours.run(self.place, work, 1, self.threads, precision))
        self.parameters[work.model] = found.parameters
        return ours.rate(found)

    def horovod(self, work: Work, pixels: int | None, keras_3: bool = False) -> float:
        """Measure Horovod's example.

        Args:
            work: The network to train.
            pixels: Height and width of the images; None for the unchanged example.
            keras_3: Use Keras 3 instead of the example's own Keras.

        Returns:
            Images/s, the median of the iterations.
        """
        batches = ("--num-warmup-batches", "2", "--num-batches-per-iter", str(work.steps), "--num-iters", "2")
        sized = ["-m", "bench.train_horovod", train_place.example(), str(pixels)] if pixels else [train_place.example()]
        legacy = {"TF_USE_LEGACY_KERAS": "1", "PYTHONPATH": train_place.tf_keras()}
        argv = [PYTHON, *sized, "--no-cuda", "--batch-size", str(work.batch), *batches]
        said = self.place.run(argv, {} if keras_3 else legacy)
        return statistics.median(float(line.split()[2]) for line in said.splitlines() if line.startswith("Iter #"))

    def torch(self, work: Work, precision: str) -> float:
        argv = ["/usr/bin/python3", "-m", "bench.train_torch", "--precision", precision, "--rounds", str(EPOCHS - 1)]
        argv += _flags(pixels=work.pixels, batch=work.batch, steps=work.steps, threads=self.threads)
        found = self.place.json(argv, {"PYTHONPATH": train_place.torch()})
        return float(statistics.median(found["images_per_second"]))

    def fit(self, work: Work) -> float:
        argv = [PYTHON, "-m", "bench.train_keras", work.model, *_flags(epochs=EPOCHS, channels=work.channels)]
        argv += _flags(pixels=work.pixels, classes=work.classes, batch=work.batch, steps=work.steps)
        found = self.place.json(argv)
        mine, theirs = self.parameters.get(work.model, found["parameters"]), found["parameters"]
        assert abs(mine / theirs - 1) < NEAR, f"{work.model} has {mine} parameters, Keras' {theirs}: another network"
        return float(statistics.median(found["images_per_second"]))


def _flags(**values: int) -> list[str]:
    return [word for name, value in values.items() for word in (f"--{name}", str(value))]
