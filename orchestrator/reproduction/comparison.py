"""Compare two runs: which fields differ, whether weights are equal bit for bit, and how far scores are apart. Pure.

Equal weights are expected of ranks on CPUs where everything in DECISIVE is equal; elsewhere scores must agree within a
tolerance. GPUs add in another order from run to run.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from orchestrator.reproduction.exported_run import Exported
from orchestrator.schema import Epoch

Verdict = Literal["equal", "within tolerance", "different"]
# Fields that decide on the bits of the weights, and the beginnings of others: packages, settings, epochs.
DECISIVE = (
    *("ranks", "threads", "controller", "autotune", "fusion threshold"),
    *("CPU", "CPU flags", "GPU", "image", "data", "variables"),
    *("package ", "setting ", "ranks of epoch ", "learning rate of epoch "),
)
LONG = 8  # items
OF_ONE_RUN = {
    *("run", "data", "resume", "restarts", "threads", "max_time"),
    *("keep_checkpoints", "checkpoint_every", "save_model"),
}


@dataclass(frozen=True)
class Tolerance:
    """Largest difference of scores: ``top1`` in points of a percentage, ``loss`` and other numbers as a share."""

    top1: float = 1.0
    loss: float = 0.1

    def __str__(self) -> str:
        return f"test top-1 within {self.top1:g} points, test loss within {self.loss:.0%}"


@dataclass(frozen=True)
class Difference:
    """Field that differs between two runs, and its values there; None where a run has no such field."""

    field: str
    was: Any
    now: Any

    @property
    def decisive(self) -> bool:
        """Whether it may change the bits of the weights."""
        return any(self.field == name or (name.endswith(" ") and self.field.startswith(name)) for name in DECISIVE)


@dataclass(frozen=True)
class Comparison:
    """Result of comparing two runs.

    Attributes:
        verdict: Whether they agree.
        reason: What that rests on.
        differences: Fields that differ.
        expected_equal: Whether the weights should be equal, for no decisive field differs.
        epochs: Rows of number, equality of weights, top-1 then and now, loss then and now, of the epochs of both.
    """

    verdict: Verdict
    reason: str
    differences: list[Difference]
    expected_equal: bool
    epochs: list[tuple[int, bool, float, float, float, float]]


def compare(old: Exported, new: Exported, tolerance: Tolerance) -> Comparison:
    """Compare a run with the one that repeats it.

    Args:
        old: Run that was exported.
        new: Run that repeats it.
        tolerance: Largest difference of scores.

    Returns:
        The comparison.
    """
    differences = [_difference(name, was, now) for name, was, now in _fields(old, new) if was != now]
    expected = not any(difference.decisive for difference in differences) and not _hardware(old).get("GPU")
    epochs = _epochs(old, new)
    verdict, reason = _training(old, epochs, expected, tolerance) if old.results else _script(old, new, tolerance)
    return Comparison(verdict, reason, differences, expected, epochs)


def _difference(name: str, was: Any, now: Any) -> Difference:
    """Return a difference; of long lists only the items that one of them has alone."""
    if isinstance(was, list) and isinstance(now, list) and len(was) + len(now) > LONG:
        return Difference(name, [x for x in was if x not in now], [x for x in now if x not in was])
    return Difference(name, was, now)


def _fields(old: Exported, new: Exported) -> Iterator[tuple[str, Any, Any]]:
    """Yield the name and both values of each field."""
    for name, key in {"ranks": "np", "threads": "threads", "launcher": "launcher", "controller": "controller",
                      "autotune": "autotune", "cycle time": "cycle_time", "fusion threshold": "fusion_threshold",
                      "command": "command"}.items():  # fmt: skip
        if name != "command" or not old.config:
            yield name, getattr(old.run, key), getattr(new.run, key)
    yield "state", _state(old), _state(new)
    then, now = old.provenance, new.provenance
    yield "orchestrator", then.orchestrator, now.orchestrator
    yield "commit of orchestrator", _commit(then.code), _commit(now.code)
    yield "image", then.trainer, now.trainer
    yield "id of image", then.image, now.image
    yield "data", old.data, new.data
    yield "variables", then.variables, now.variables  # by name: values are not recorded
    was, then_now = _hardware(old), _hardware(new)
    yield from ((name, was.get(name), then_now.get(name)) for name in sorted({*was, *then_now}))
    yield from _both("package ", _versions(old), _versions(new))
    yield from _both("node ", then.settings, now.settings)
    yield from _both("setting ", _settings(old), _settings(new))
    if old.results and old.results.resumed_from:  # else ranks and settings are those of every epoch
        yield from _training_by_epoch(old, new)


def _state(run: Exported) -> str | None:
    """Return the state in which a run ended: a failed or stopped one has fewer epochs than its repetition."""
    return run.status.state if run.status else None


def _training_by_epoch(old: Exported, new: Exported) -> Iterator[tuple[str, Any, Any]]:
    """Yield ranks and learning rate of each epoch: a resumed run may have trained its first ones with other options."""
    for was, now in _epochs_of_both(old, new):
        then, again = len(was.images_per_second_per_rank), len(now.images_per_second_per_rank)
        yield f"ranks of epoch {was.epoch}", then, again
        yield f"learning rate of epoch {was.epoch}", was.learning_rate, now.learning_rate


def _both(prefix: str, was: dict[str, Any], now: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    yield from ((prefix + name, was.get(name), now.get(name)) for name in sorted({*was, *now}))


def _versions(run: Exported) -> dict[str, str]:
    """Return the versions of the packages that a run imports: those of its overlay come before the image's."""
    return {**run.packages.image, **run.packages.overlay} if run.packages else {}


def _commit(commit: Any) -> str | None:
    return f"{commit.commit}{' with changes' if commit.changed else ''}" if commit else None


def _settings(run: Exported) -> dict[str, Any]:
    """Return the settings of a training run as they were resolved, without those that only one run can have."""
    resolved = run.results.config if run.results else run.config
    return resolved.model_dump(exclude=OF_ONE_RUN) if resolved else {}


def _hardware(run: Exported) -> dict[str, Any]:
    """Return the kinds of hardware of all nodes, each kind once."""
    nodes = [node.hardware for node in run.provenance.nodes.values() if node.hardware]
    flags = {flag for node in nodes for flag in node.cpu_flags}
    of_all = {flag for flag in flags if all(flag in node.cpu_flags for node in nodes)}
    kinds = {"machine": "machine", "CPU": "cpu_model", "architecture": "architecture", "kernel": "kernel",
             "system": "system", "GPU driver": "gpu_driver", "network driver": "nic_driver",
             "network Mbit/s": "nic_mbits", "memory": "memory"}  # fmt: skip
    values = {name: sorted({str(getattr(node, key)) for node in nodes}) for name, key in kinds.items()}
    gpus = sorted({gpu for node in nodes for gpu in node.gpus})
    return {**values, "CPU flags": sorted(of_all), "GPU": gpus} if nodes else {}


def _epochs_of_both(old: Exported, new: Exported) -> list[tuple[Epoch, Epoch]]:
    if not (old.results and new.results):
        return []
    then = {epoch.epoch: epoch for epoch in old.results.epochs}
    return [(then[epoch.epoch], epoch) for epoch in new.results.epochs if epoch.epoch in then]


def _epochs(old: Exported, new: Exported) -> list[tuple[int, bool, float, float, float, float]]:
    return [
        (before.epoch, before.weights_sha256 == after.weights_sha256, before.test.top1, after.test.top1,
         before.test.loss, after.test.loss)
        for before, after in _epochs_of_both(old, new)
    ]  # fmt: skip


def _training(
    old: Exported, epochs: list[tuple[int, bool, float, float, float, float]], expected: bool, tolerance: Tolerance
) -> tuple[Verdict, str]:
    count = len(old.results.epochs) if old.results else 0
    if len(epochs) < count or not epochs:
        return "different", f"{len(epochs)} of {count} epochs were made"
    if all(equal for _, equal, *_ in epochs):
        return "equal", f"the weights of all {count} epochs are equal bit for bit"
    number, _, top1, top1_now, loss, loss_now = epochs[-1]
    points, share = abs(top1_now - top1) * 100, _share(loss, loss_now)
    distance = f"in epoch {number} test top-1 differs by {points:.2f} points and test loss by {share:.1%}"
    if expected:
        return "different", f"weights differ, though nothing that decides on them does; {distance}"
    within = points <= tolerance.top1 and share <= tolerance.loss
    return ("within tolerance" if within else "different"), f"{distance}; tolerance: {tolerance}"


def _share(was: float, now: float) -> float:
    """Return the difference as a share of the larger value."""
    return abs(now - was) / max(abs(was), abs(now), 1e-12)


def _exit_code(run: Exported) -> int | None:
    """Return the exit code of the rank that failed first, else that of the launcher, which hides the codes of ranks."""
    failure = run.status.failure if run.status else None
    if failure and failure.exit_code is not None:
        return failure.exit_code
    return run.status.exit_code if run.status else None


def _script(old: Exported, new: Exported, tolerance: Tolerance) -> tuple[Verdict, str]:
    """Compare exit codes, and the numbers that both left in output/results.json."""
    codes = [_exit_code(run) for run in (old, new)]
    if codes[0] != codes[1]:
        return "different", f"exit code {codes[1]} instead of {codes[0]}"
    if not old.output:
        return "equal", f"exit code {codes[0]} as before; there is no finite number in output/results.json to compare"
    missing = sorted(old.output.keys() - new.output.keys())
    if missing:
        return "different", f"{missing[0]} in output/results.json is no finite number any more"
    far = {name: _share(was, new.output[name]) for name, was in old.output.items()}
    name = max(far, key=lambda key: far[key])
    if not far[name]:
        return "equal", f"exit code {codes[0]} and all {len(far)} numbers in output/results.json as before"
    words = f"{name} in output/results.json is {new.output[name]:g} instead of {old.output[name]:g}"
    return ("within tolerance" if far[name] <= tolerance.loss else "different"), f"{words}; {tolerance.loss:.0%} may be"
