"""Seconds and load of an allreduce over a link: a ring (Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce")."""

from dataclasses import dataclass, replace
from typing import NamedTuple

SMALL = 64 << 10  # bytes; transports send longer messages by other protocols
# Core-seconds per byte on a CPU for the steps before and after the transfer of a message: copy into a buffer, divide,
# copy back. They read or write each byte about ten times, at 10 GB/s per core.
COPY = 1e-9
ROUND = 5e-10  # core-seconds per byte in float32: to 16 bits and back, on a CPU


class Ring(NamedTuple):
    """Steps of an allreduce in a ring, and the bytes that each rank sends in it: those up to SMALL, and beyond."""

    steps: float
    small: float
    large: float


def ring(size: float, ranks: int) -> Ring:
    """Return the ring for ``size`` bytes: 2(n-1) steps carry an n-th of the message each, and half of them add it."""
    steps, large = 2 * (ranks - 1), max(0.0, size - SMALL)
    return Ring(steps, steps / ranks * (size - large), steps / ranks * large)


@dataclass(frozen=True)
class Link:
    """Link between two ranks.

    Attributes:
        alpha: Seconds of one step of a ring: latency, and what ranks say to each other beforehand.
        beta: Seconds per byte of messages beyond SMALL, reduction included.
        beta_small: The same up to SMALL.
        load: Core-seconds per byte that a rank spends on sending, receiving and adding.
        load_message: Core-seconds per message that a rank spends, whatever its size.
        share: Share (0 to 1) of a rank's computing that stands still during communication; of GPUs, whose
            communication takes part of their cores.
        copy: Core-seconds per byte for the copies before and after the transfer, unless ``load`` contains them.
    """

    alpha: float
    beta: float
    beta_small: float
    load: float = 0.0
    load_message: float = 0.0
    share: float = 0.0
    copy: float = COPY

    def allreduce(self, size: float, ranks: int) -> float:
        """Return the seconds of an allreduce of ``size`` bytes in a ring of ``ranks``."""
        steps, small, large = ring(size, ranks)
        return steps * self.alpha + small * self.beta_small + large * self.beta

    def scaled(self, latency: float, seconds_per_byte: float) -> "Link":
        """Return a link of another latency and speed, as factors."""
        return replace(
            self,
            alpha=self.alpha * latency,
            beta=self.beta * seconds_per_byte,
            beta_small=self.beta_small * seconds_per_byte,
        )


def latencies(nodes: int, ranks: int) -> tuple[int, int]:
    """Return how many steps of a flat ring of ``ranks`` are between several ``nodes``, and how many within them."""
    steps = 2 * (ranks - 1)
    between = min(steps, 2 * nodes)
    return between, steps - between


@dataclass(frozen=True)
class Topology:
    """Ranks on nodes: ``slots`` ranks on each of ``nodes``, connected by ``local`` within a node and ``link`` between.

    If ``hierarchical``, the ranks of a node reduce first, and one part of each goes around among nodes. None: a flat
    ring, except that our trainer may choose otherwise (``communication_overlap``).
    """

    nodes: int
    slots: int
    link: Link
    local: Link
    hierarchical: bool | None = None

    @property
    def ranks(self) -> int:
        """Return the number of ranks."""
        return self.nodes * self.slots

    @property
    def outer(self) -> Link:
        """Return the link that a message waits for."""
        return self.link if self.nodes > 1 else self.local

    def seconds(self, size: float) -> float:
        """Return the seconds of an allreduce of ``size`` bytes; a flat ring is as fast as its slowest part."""
        if self.nodes == 1 or self.slots == 1:
            return self.outer.allreduce(size, self.ranks)
        if self.hierarchical:
            return self.link.allreduce(size, self.nodes) + self.local.allreduce(size, self.slots)
        between, within = latencies(self.nodes, self.ranks)
        latency = between * self.link.alpha + within * self.local.alpha
        slower = max(self.link, self.local, key=lambda link: link.beta)
        return latency + replace(slower, alpha=0.0).allreduce(size, self.ranks)

    def message(self, size: float, cores: float | None) -> tuple[float, float]:
        """Return the seconds of an allreduce of ``size`` bytes, and those that it takes from computing.

        Args:
            size: Bytes.
            cores: Cores of a rank; None if a GPU computes.

        Returns:
            Both numbers, the second at most as large as the first.
        """
        seconds, sent = self.seconds(size), 2 * (self.ranks - 1) / self.ranks * size
        if cores is None:
            return seconds, self.outer.share * seconds
        copying = self.outer.copy * size / cores
        load = (self.outer.load_message + self.outer.load * sent) / cores
        return seconds + copying, min(load, seconds) + copying
