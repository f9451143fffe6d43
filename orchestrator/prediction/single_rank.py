"""One rank without communication: how long the parts of its step take, and when its gradients are ready."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist, median

from orchestrator.prediction.ready_gradients import Gradient
from orchestrator.schema import Profile

# Without a profile: backpropagation computes two products for each one of the forward pass, and the rest is the update.
FORWARD, BACKWARD = 0.32, 0.64
JITTER = (
    0.015  # standard deviation of a step over its mean, if no steps were measured: of GPU nodes without a neighbour
)


@dataclass(frozen=True)
class Node:
    """A rank's step.

    Attributes:
        batch: Images of one backward pass.
        forward: Seconds from the step's begin to the begin of backpropagation, input included.
        backward: Seconds of backpropagation.
        rest: Seconds from the last gradient to the step's end: the update.
        gradients: In the order in which they are ready.
        cores: Cores that compute, and that communication shares with computing; None if a GPU computes.
        steps: Measured seconds of steps, sorted; empty if only the mean is known.
    """

    batch: int
    forward: float
    backward: float
    rest: float
    gradients: tuple[Gradient, ...]
    cores: float | None = None
    steps: tuple[float, ...] = ()

    @property
    def seconds(self) -> float:
        """Return the seconds of a step of one backward pass."""
        return self.forward + self.backward + self.rest

    @property
    def bytes(self) -> float:
        """Return the bytes of all gradients in float32."""
        return sum(gradient.bytes for gradient in self.gradients)

    def scaled(self, factor: float) -> "Node":
        """Return a node whose every second takes ``factor`` seconds."""
        return replace(
            self,
            forward=self.forward * factor,
            backward=self.backward * factor,
            rest=self.rest * factor,
            steps=tuple(seconds * factor for seconds in self.steps),
        )

    def waiting(self, ranks: int) -> float:
        """Return the median seconds by which the slowest of ``ranks`` independent steps is above the median step."""
        half = 0.5 ** (1 / ranks)  # all of them are below this quantile in half of the steps
        if self.steps:
            return quantile(self.steps, half) - quantile(self.steps, 0.5)
        return JITTER * self.seconds * NormalDist().inv_cdf(half)


def from_step(batch: int, seconds: float, gradients: tuple[Gradient, ...], cores: float | None = None) -> Node:
    """Return a node of which only the time of a step is known.

    Args:
        batch: Images of a step.
        seconds: Mean seconds of a step.
        gradients: As :func:`orchestrator.prediction.ready_gradients.estimate` returns them.
        cores: As in :class:`Node`.

    Returns:
        The node, with the parts of its step in the usual proportions.
    """
    forward, backward = seconds * FORWARD, seconds * BACKWARD
    return Node(batch, forward, backward, seconds - forward - backward, gradients, cores)


def from_profile(profile: Profile, cores: float | None = None) -> Node:
    """Return the node that ran ``profile``: its steps, and its gradients where they were ready.

    When backpropagation began was not measured, and changes nothing but how long an evaluation takes.

    Args:
        profile: Profile of a run of one rank.
        cores: Cores of a rank, which may be less than one; by default as many as it had threads.

    Returns:
        The node.
    """
    seconds = median(profile.steps)
    backward = BACKWARD * seconds
    gradients = tuple(Gradient(ready.bytes, max(0.0, 1 - ready.seconds / backward)) for ready in profile.gradients)
    cores = None if profile.on_gpu else cores or float(profile.threads)
    node = from_step(profile.batch, seconds, gradients, cores)
    return replace(node, steps=tuple(sorted(profile.steps)))


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the value of ``ordered``, ascending, below which ``share`` (0 to 1) lies, interpolated."""
    position = share * (len(ordered) - 1)
    low = min(int(position), len(ordered) - 2) if len(ordered) > 1 else 0
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (position - low) * (ordered[high] - ordered[low])
