"""Compare predictions with measurements of their runs."""

from dataclasses import dataclass

from orchestrator.schema import Predicted, Results


@dataclass(frozen=True)
class Reviewed:
    """Images/s of all ranks: predicted, the ends of the 90 % band, and measured."""

    cluster: str
    run: str
    ranks: int
    predicted: float
    low: float
    high: float
    measured: float

    @property
    def error(self) -> float:
        """Return how much more than measured was predicted, as a share of what was measured; below 0 if less was."""
        return self.predicted / self.measured - 1

    @property
    def inside(self) -> bool:
        """Tell whether the measurement lies in the band."""
        return self.low <= self.measured <= self.high

    def __str__(self) -> str:
        """Return one line for people."""
        predicted, low, high, measured = map(digits, (self.predicted, self.low, self.high, self.measured))
        return f"predicted {predicted} images/s ({low} - {high}), measured {measured}: error {self.error:+.1%}"


def digits(value: float, count: int = 4) -> str:
    """Return ``count`` digits of ``value``, more of a larger integer, and no exponent."""
    return f"{value:.{count}g}" if value < 10 ** (count - 1) else f"{value:.0f}"


def images_per_second(results: Results) -> float | None:
    """Return the images/s of all ranks over the epochs of this run; None if none had steps that count."""
    counted = [epoch for epoch in results.epochs if epoch.epoch > results.epochs_before and epoch.images_per_second > 0]
    medians = [epoch.median_step_seconds for epoch in counted if epoch.median_step_seconds]
    if medians:
        return results.effective_batch_size * len(medians) / sum(medians)
    return sum(epoch.images_per_second for epoch in counted) / len(counted) if counted else None


def review(cluster: str, prediction: Predicted | None, results: Results | None) -> Reviewed | None:
    """Compare a prediction with the results of its run; None if one of them is missing, or ranks differ."""
    measured = images_per_second(results) if results else None
    if prediction is None or results is None or not measured or results.world.size != prediction.ranks:
        return None
    rate = prediction.images_per_second
    return Reviewed(cluster, results.run, prediction.ranks, rate, prediction.low, prediction.high, measured)
