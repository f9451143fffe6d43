"""Find when a training run reached an accuracy, from its results."""

from orchestrator.schema.results import Epoch, Results


def epoch_with(results: Results, top1: float) -> Epoch | None:
    """Return the first epoch whose evaluation reached ``top1`` (0 to 1); None if none did."""
    return next((epoch for epoch in results.epochs if epoch.test.top1 >= top1), None)


def time_to_accuracy(results: Results, top1: float) -> float | None:
    """Return the seconds from the first step to the end of the evaluation that reached ``top1`` (0 to 1).

    It is the time of training and of evaluation, also of the runs that this one continues. The time to write
    checkpoints, and between a stop and a resumption, is not in it. None if no evaluation reached ``top1``.
    """
    reached = epoch_with(results, top1)
    return None if reached is None else _time_to(results, reached)


def time_to_end(results: Results) -> float | None:
    """Return the seconds from the first step to the end of the last evaluation, counted as in time_to_accuracy."""
    return _time_to(results, results.epochs[-1]) if results.epochs else None


def _time_to(results: Results, last: Epoch) -> float:
    return sum(epoch.seconds + epoch.test_seconds for epoch in results.epochs if epoch.epoch <= last.epoch)


def describe(results: Results, top1: float) -> str:
    """Say when a run reached ``top1`` (0 to 1), or which accuracy was its best."""
    reached, seconds = epoch_with(results, top1), time_to_accuracy(results, top1)
    if reached is None or seconds is None:
        best = max((epoch.test.top1 for epoch in results.epochs), default=0.0)
        return f"top-1 {top1:.2%}: not reached, the best was {best:.2%}"
    return f"top-1 {top1:.2%}: reached after {seconds:.1f} s, in epoch {reached.epoch}"
