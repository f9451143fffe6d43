"""The contestants of ``bench.train``, each measured in images/s of its own process in its own container."""

import math
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from bench import harness, train_containers
from bench import train_ours as ours
from bench.harness import Row, interleaved
from bench.train_containers import MissingReference, Place
from bench.train_ours import EPOCHS, Work
from orchestrator.cluster import PYTHON

NEAR = 0.01  # relative difference in parameters of two forms of a network
SMOKE_PIXELS = 32  # at most
LEGACY = {"TF_USE_LEGACY_KERAS": "1"}
Contestants = dict[str, Callable[[], float]]


@dataclass(frozen=True)
class Sitting:
    """A session of measurements.

    Attributes:
        place: Where contestants run.
        rounds: Number of rounds.
        smoke: Measure only that everything runs: a few steps of small images.
        parameters: Sizes of the trainer's networks measured so far.
        missing: Contestants of the current comparison that are not on this machine or failed, with the reason.
    """

    place: Place
    rounds: int
    smoke: bool = False
    parameters: dict[str, int] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def threads(self) -> int:
        return len(self.place.cores)

    def work(self, work: Work) -> Work:
        """Return ``work`` as this sitting measures it."""
        if not self.smoke or work.table:
            return work
        return replace(work, pixels=min(work.pixels, SMOKE_PIXELS), batch=2, steps=2)

    def precision(self, work: Work) -> str:
        """Return the precision that a run chooses by default; in a smoke test float32, which needs no run."""
        return "float32" if self.smoke else ours.precision(self.place, work)

    def compare(self, contestants: Contestants) -> dict[str, list[float]]:
        """Measure all contestants in every round, but none again that is recorded in ``missing``."""
        self.missing.clear()
        tried = {name: lambda n=name, m=measure: self._try(n, m) for name, measure in contestants.items()}
        return interleaved(tried, self.rounds)

    def _try(self, name: str, measure: Callable[[], float]) -> float:
        if name in self.missing:
            return math.nan
        try:
            return measure()
        except (MissingReference, RuntimeError) as error:
            print(f"{name} is not measured: {error}", file=sys.stderr)
            self.missing[name] = str(error).splitlines()[-1].strip()
            return math.nan

    def paired(
        self, measured: dict[str, list[float]], contestant: str, reference: str, goal: str = "", unit: str = "images/s"
    ) -> Row:
        """Compare two contestants, as ``harness.paired``; the row says so if one of them is missing."""
        for name in (contestant, reference):
            if name in self.missing:
                return Row(contestant, goal, "", "not measured", f"{name}: {self.missing[name]}")
        return harness.paired(measured, contestant, reference, goal, unit)

    def ours(self, work: Work, precision: str | None = None) -> float:
        results = ours.train_on_one_rank(self.place, ours.run(self.place, work, 1, self.threads, precision))
        self.parameters[work.model] = results.parameters
        return ours.rate(results)

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
        sized = (
            ["-m", "bench.train_horovod", train_containers.example(), str(pixels)]
            if pixels
            else [train_containers.example()]
        )
        argv = [PYTHON, *sized, "--no-cuda", "--batch-size", str(work.batch), *batches]
        output = self.place.run(argv, {} if keras_3 else LEGACY)
        return statistics.median(float(line.split()[2]) for line in output.splitlines() if line.startswith("Iter #"))

    def torch(self, work: Work, precision: str, compiled: bool = False) -> float:
        """Measure PyTorch, or PyTorch with torch.compile."""
        place = replace(self.place, image=train_containers.pytorch_image())
        argv = [PYTHON, "-m", "bench.train_torch", "--precision", precision, "--rounds", str(EPOCHS - 1)]
        argv += _flags(pixels=work.pixels, batch=work.batch, steps=work.steps, threads=self.threads)
        return float(statistics.median(place.json([*argv, *["--compile"] * compiled])["images_per_second"]))

    def fit(self, work: Work) -> float:
        argv = [PYTHON, "-m", "bench.train_keras", work.model, *_flags(epochs=EPOCHS), *_shape(work)]
        fitted = self.place.json(argv)
        own, reference = self.parameters.get(work.model, fitted["parameters"]), fitted["parameters"]
        assert abs(own / reference - 1) < NEAR, (
            f"{work.model} has {own} parameters, Keras' {reference}: another network"
        )
        return float(statistics.median(fitted["images_per_second"]))

    def loop(self, work: Work, keras: str, precision: str) -> float:
        """Measure the shortest loop of the network in ``keras`` ("keras" or "tf_keras")."""
        argv = [PYTHON, "-m", "bench.train_loop", work.model, "--precision", precision, *_shape(work)]
        measured = self.place.json([*argv, *_flags(rounds=EPOCHS - 1)], {"BENCH_KERAS": keras})
        return float(statistics.median(measured["images_per_second"]))


def _shape(work: Work) -> list[str]:
    sizes = {"pixels": work.pixels, "channels": work.channels, "classes": work.classes}
    return _flags(**sizes, batch=work.batch, steps=work.steps)


def _flags(**values: int) -> list[str]:
    return [word for name, value in values.items() for word in (f"--{name}", str(value))]
