"""Compare quotas with what a cluster still needs: how many of its nodes fit. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Protocol, TypeVar

from orchestrator.errors import gather


class _Quota(Protocol):
    @property
    def free(self) -> float: ...


Quota = TypeVar("Quota", bound=_Quota)


@dataclass(frozen=True)
class Need:
    """Use of a quota: ``once`` for the cluster, and ``each`` for the nodes to be made or started, in their order."""

    once: float
    each: Sequence[float]

    @property
    def sum(self) -> float:
        """Return the use by the cluster and all these nodes."""
        return self.once + sum(self.each)

    def fits(self, free: float) -> int | None:
        """Return how many of these nodes fit; None if not even ``once`` fits."""
        sums = list(accumulate(self.each, initial=self.once))
        return sum(needed <= free for needed in sums) - 1 if self.once <= free else None

    def fitting(self, free: float, nodes: int) -> int:
        """Return how many of ``nodes`` fit, including the existing ones."""
        fit = self.fits(free)
        return 0 if fit is None else nodes - len(self.each) + fit


def require_enough(
    quotas: Mapping[str, Quota], needs: Mapping[str, Need], nodes: int, refuse: Callable[[str, Quota, Need, int], None]
) -> None:
    """Check every quota.

    Args:
        quotas: Quotas by name.
        needs: What is still needed, by the quota's name.
        nodes: Number of nodes of the cluster.
        refuse: Raises PreflightError for a quota that is too small; called with its name, the quota, the need, and the
            number of nodes that all quotas allow.

    Raises:
        PreflightError: Some quotas are too small.
    """
    limited = [(name, quotas[name], need) for name, need in needs.items() if name in quotas]
    short = [(name, quota, need) for name, quota, need in limited if need.sum > quota.free]
    fewest = min((need.fitting(quota.free, nodes) for _, quota, need in short), default=0)
    gather(*(partial(refuse, name, quota, need, fewest) for name, quota, need in short))
