"""Models of any run, whatever its program: its ranks, its end, its nodes, and the measurements of `check`."""

import re
from typing import Literal

from pydantic import Field

from orchestrator.schema.file_model import File, Time
from orchestrator.schema.names import FileName

State = Literal["finished", "failed", "stopped"]
LOG_TAG = re.compile(r"^\[(?:\d+,)?(\d+)\]<(?:stdout|stderr)>:")  # of a rank's line in a run's log, by the launcher


class Failure(File):
    """First failure of a run: a rank, a host that stopped answering, the launcher, or a start that took too long.

    ``hosts`` are all that stopped answering, ``host`` is the first of them.
    ``lines`` are the last lines of the rank or, for a slow start, say how many ranks had started.
    A rank without ``exit_code`` raised an exception and was ended before it could exit by itself.
    """

    reason: Literal["rank", "host", "launcher", "start"]
    host: str | None = None
    hosts: list[str] = Field([])
    rank: int | None = None
    exit_code: int | None = None
    lines: list[str] = Field([])


class RunStatus(File):
    """End of a run. ``left`` holds the hosts on which processes may remain, because the hosts did not answer."""

    state: State
    exit_code: int
    started: Time
    ended: Time
    failure: Failure | None = None
    left: list[str] = Field([])


class QueuedRun(File):
    """Run that a queue starts: its directories, and the environment of its supervisor.

    ``hosts`` are those whose load is measured before it starts; if empty, the load of the head is.
    """

    directory: str
    workdir: str
    environment: dict[str, str]
    hosts: list[str] = Field([])


class Queue(File):
    """Runs that the head starts one after another, in this order."""

    runs: list[QueuedRun]


class Turn(File):
    """Start of a run by a queue, and the share of CPU time (0 to 1) that programs used just before."""

    started: Time
    busy: float = Field(ge=0, le=1)


class Hardware(File):
    """Machine, kernel and system of a node, as ``orchestrator.trainer.telemetry.hardware`` reads them.

    ``cpus`` are the threads of the whole machine, of which a node may have a part; ``memory`` is in bytes,
    ``nic_mbits`` the speed of the network interface in Mbit/s. A part that is not known is None or empty.
    """

    machine: str | None = None
    architecture: str
    cpu_model: str | None = None
    cpu_flags: list[str] = Field([])
    cpus: int
    memory: int
    kernel: str
    system: str | None = None
    gpus: list[str] = Field([])
    gpu_driver: str | None = None
    nic_driver: str | None = None
    nic_mbits: int | None = None


class NodeReport(File):
    """Report of a node about itself, by ``orchestrator.trainer.telemetry.node_report``. Sizes are in bytes.

    If the shared storage does not answer, as NFS of a head that is down, nothing else is known about it.
    """

    hostname: str
    resolves: bool
    interface: str | None
    interfaces: list[str]
    digest: str | None
    shared_answers: bool = True
    shared_writable: bool
    shared_free: int
    memory: int
    memory_available: int
    runs: list[FileName]
    unreachable: dict[str, str]
    hardware: Hardware | None = None


class CheckRank(File):
    """Rank of a check: its host, its number on that host, and the sum that its allreduce returned."""

    rank: int
    host: str
    local_rank: int
    allreduce_sum: float


class CheckMessage(File):
    """Measurements of one message size.

    ``latency_seconds`` is the median of an allreduce, ``bus_bandwidth`` is in bytes/s per rank pair of links as
    nccl-tests defines it. ``cpu_seconds`` is the CPU time of the rank that used most of it for the allreduce; None in
    files of older versions.
    """

    bytes: int
    latency_seconds: float
    bus_bandwidth: float
    cpu_seconds: float | None = None


class CheckResult(File):
    """Measurements of ``orchestrator check``: ranks, the sum that proves the allreduce, latency by message size.

    ``sizes`` lacks large messages, and ``step_work`` is less than 1, if measuring them would have taken too long.
    ``step_seconds`` is the time, on the slowest rank, of the share ``step_work`` of a step whose arithmetic continues
    while its gradients travel.
    """

    size: int
    expected_sum: float
    ranks: list[CheckRank]
    sizes: list[CheckMessage]
    step_seconds: float
    step_work: float = Field(gt=0.0, le=1.0)

    @property
    def whole_step_seconds(self) -> float:
        """Return the seconds of a whole step, in proportion, to compare checks of different ``step_work``."""
        return self.step_seconds / self.step_work
