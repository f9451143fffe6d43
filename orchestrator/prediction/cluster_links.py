"""Links between the ranks of any number of nodes, and the links that a measurement of some of them allows."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from orchestrator.prediction import link_fit
from orchestrator.prediction.allreduce_time import Link, Topology
from orchestrator.prediction.link_fit import Point


class Doubt(NamedTuple):
    """Relative standard deviations of what is not known exactly.

    Attributes:
        step: Of one node's step, between two runs.
        speed: Of the link's seconds per byte.
        latency: Of the link's seconds per message.
        model: Of the predicted step of several ranks, for what the model leaves out.
    """

    step: float = 0.015
    speed: float = 0.15
    latency: float = 0.3
    model: float = 0.04


NAMED = Doubt()
# A cloud promises no share of its limit, and names no latency: twice the doubt about a link that the user names.
LIMITED = Doubt(speed=2 * NAMED.speed, latency=2 * NAMED.latency)
MEASURED = Doubt(speed=0.05, latency=0.1)  # from one measurement to the next; the bootstrap adds that of the fit


@dataclass(frozen=True)
class Connection:
    """Links between nodes and within them.

    Attributes:
        link: Between nodes.
        local: Between the ranks of a node.
        slots: Ranks of a node.
        hierarchical: As in :class:`Topology`.
        points: Measured messages that ``link`` is fitted to; empty if it is named only. A check inside one node
            measures ``local``, and ``link`` is the same.
        unmeasured: How well the links are known without ``points``.
    """

    link: Link
    local: Link
    slots: int = 1
    hierarchical: bool | None = None
    points: Sequence[Point] = ()
    unmeasured: Doubt = NAMED

    def at(self, nodes: int) -> Topology:
        """Return the topology of ``nodes``."""
        return Topology(nodes, self.slots, self.link, self.local, self.hierarchical)

    @property
    def doubt(self) -> Doubt:
        """Return how well the links are known."""
        return MEASURED if self.points else self.unmeasured

    def drawn(self, generator: random.Random) -> "Connection":
        """Return another connection that what is known allows."""
        speed, latency = (math.exp(generator.gauss(0, sigma)) for sigma in (self.doubt.speed, self.doubt.latency))
        link = self.link
        if self.points:
            fitted = link_fit.link(link_fit.resampled(self.points, link, generator), link.load)
            link = replace(fitted, share=link.share)
        local = link if self.local == self.link else self.local
        return replace(self, link=link.scaled(latency, speed), local=local.scaled(latency, speed))
