"""Links without measurements: a rate, a latency and the constants of their kind, each with its reason."""

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

from orchestrator.errors import ConfigError
from orchestrator.prediction.allreduce_time import Link
from orchestrator.schema.bounded_files import shown

Kind = Literal["tcp", "cloud", "roce", "ib"]
RATE = re.compile(
    r"(?P<rate>\d+(?:\.\d+)?)\s*(?P<unit>[kmg])(?P<of>bit|byte)(?:/s)?(?:[- ](?P<kind>tcp|cloud|roce|ib))?", re.I
)
LATENCY = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>us|ms|s)", re.I)
SLOWEST, FASTEST, LONGEST = 1e3, 1e15, 60.0  # bits/s, bits/s, and seconds of latency: beyond, forecasts overflow
UNITS = {"k": 1e3, "m": 1e6, "g": 1e9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "bit": 1.0, "byte": 8.0}


class Constants(NamedTuple):
    """Facts of a kind of link.

    Attributes:
        efficiency: Share of the line rate that a ring of GPUs reaches at most.
        most: Bytes/s that it reaches at most, however fast the line is.
        latency: Seconds of a ring's step, without a latency of the user's.
    """

    efficiency: float
    most: float
    latency: float


# One set of constants for each kind of link:
# tcp    Sockets reach 0.9 of a line of 10 Gbit/s, after headers. NCCL copies through the host's memory: on 16 GPUs over
#        25 GbE, VGG-16 in Horovod's table of 2017 (horovod #44) had 1.7 of 3.1 GB/s. A step takes the 14 us of NCCL's
#        own model (src/graph/tuning.cc, hwLat, network, protocol Simple), two system calls and interrupts.
# cloud  The same over virtual interfaces: one flow has at most 10 Gbit/s within a placement group (EC2's user guide,
#        "network bandwidth"), and a ring has one.
# roce   The same table over RDMA: 2.6 of 3.1 GB/s, and NCCL's 14 us.
# ib     Verbs as with roce, which carries the same protocol over Ethernet.
KINDS: dict[Kind, Constants] = {
    "tcp": Constants(0.9, 1.7e9, 50e-6),
    "cloud": Constants(0.9, 1.25e9, 60e-6),
    "roce": Constants(0.85, float("inf"), 14e-6),
    "ib": Constants(0.85, float("inf"), 14e-6),
}
# Between GPUs of a node: bytes/s of a ring ("bus bandwidth" of nccl-tests, README of its results), and NCCL's latency.
LOCAL = {"pcie": (10e9, 6e-6), "nvlink": (120e9, 4e-6), "nvswitch": (360e9, 4e-6)}
# Between ranks of one CPU node, through the loopback interface.
LOOPBACK = Link(alpha=50e-6, beta=1 / 2e9, beta_small=1 / 2e9, load=1e-9)
# NCCL's kernels hold up to 8 of a V100's 80 multiprocessors, and share its memory.
GPU_SHARE = 0.1
# Gloo on a CPU: a core sends, receives and adds about 1 GB/s, so a faster link gains nothing with one core.
CPU_LOAD, CPU_EFFICIENCY, CPU_LATENCY = 1e-9, 0.9, 100e-6


@dataclass(frozen=True)
class Named:
    """A link as a user or a paper names it: bits per second, and its kind."""

    rate: float
    kind: Kind
    latency: float | None = None

    def between_gpus(self) -> Link:
        """Return the link of nodes whose GPUs communicate by NCCL."""
        constants = KINDS[self.kind]
        beta = 1 / min(self.rate / 8 * constants.efficiency, constants.most)
        latency = constants.latency if self.latency is None else self.latency
        return Link(latency, beta, beta, share=GPU_SHARE)

    def between_cpus(self, cores: float) -> Link:
        """Return the link of nodes whose ``cores`` compute and communicate by Gloo."""
        beta = max(8 / (self.rate * CPU_EFFICIENCY), CPU_LOAD / min(cores, 2))
        return Link((self.latency or 0.0) + CPU_LATENCY, beta, beta, load=CPU_LOAD)


class Limit(NamedTuple):
    """The most bits/s that a cloud lets a node send, and whose limit it is."""

    rate: float
    source: str

    def link(self, latency: float | None = None) -> Named:
        """Return the link between nodes; ``latency`` in seconds, None for that of the kind."""
        return Named(self.rate, "cloud", latency)


def within_node(kind: str) -> Link:
    """Return the link among the GPUs of a node."""
    speed, latency = LOCAL[kind]
    return Link(latency, 1 / speed, 1 / speed, share=GPU_SHARE)


def between_ranks(cores: float | None, kind: str = "pcie") -> Link:
    """Return the link among the ranks of a node; ``kind`` is that of its GPUs, if ``cores`` is None."""
    return LOOPBACK if cores else within_node(kind)


def parse(link: str, latency: str | None = None) -> Named:
    """Read a link such as "10gbit" or "25gbit-roce", and a latency such as "50us", as the user writes them.

    Raises:
        ConfigError: One of them is not of that form, or impossible.
    """
    match = RATE.fullmatch(link.strip())
    if not match:
        raise ConfigError([f"--link: {link!r} is no rate"], "write it as 10gbit, 200mbit, 25gbit-roce or 100gbit-ib")
    kind: Kind = match["kind"].lower() if match["kind"] else "tcp"  # type: ignore[assignment]
    rate = float(match["rate"]) * UNITS[match["unit"].lower()] * UNITS[match["of"].lower()]
    if not SLOWEST <= rate <= FASTEST:
        raise ConfigError([f"--link: {shown(link)}: expected 1kbit to 1000000gbit"], "write it as 10gbit or 200mbit")
    return Named(rate, kind, None if latency is None else seconds(latency))


def seconds(latency: str) -> float:
    """Read a latency of the form 50us, 2ms or 1s, of at most LONGEST. Raises ConfigError for others."""
    match = LATENCY.fullmatch(latency.strip())
    read = float(match["number"]) * UNITS[match["unit"].lower()] if match else None
    if read is None or read > LONGEST:
        raise ConfigError(
            [f"--latency: {shown(latency)}: expected a duration of at most {LONGEST:g}s"], "write it as 50us or 2ms"
        )
    return read
