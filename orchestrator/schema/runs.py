"""Any run, whatever it executes: its ranks, its end, the nodes that it is on, and what `check` measured there."""

from typing import Literal

from pydantic import Field

from orchestrator.schema.file import File, Time

State = Literal["finished", "failed", "stopped"]
# Exit code of a run that was asked to end and left a checkpoint: EX_TEMPFAIL of BSD's sysexits.h, "try again later".
TERMINATED = 75


class Failure(File):
    """The first thing that went wrong: a rank (with its last lines), a host that no longer answers, or a start that
    took too long (``lines`` says how many ranks had started).

    A rank without ``exit_code`` raised, and was ended before it could exit by itself.
    """

    reason: Literal["rank", "host", "launcher", "start"]
    host: str | None = None
    rank: int | None = None
    exit_code: int | None = None
    lines: list[str] = Field([])


class RunStatus(File):
    """How a run ended. ``left`` holds the hosts that could not be swept, because they did not answer."""

    state: State
    exit_code: int
    started: Time
    ended: Time
    failure: Failure | None = None
    left: list[str] = Field([])


class NodeFacts(File):
    """What a node says of itself (``orchestrator.trainer.watching.health``). Sizes in bytes."""

    hostname: str
    resolves: bool
    interface: str | None
    interfaces: list[str]
    digest: str | None
    shared_writable: bool
    shared_free: int
    memory: int
    memory_available: int
    load: float
    runs: list[str]
    unreachable: dict[str, str]


class HelloRank(File):
    rank: int
    host: str
    local_rank: int
    allreduce_sum: float


class HelloSize(File):
    """One message size: seconds per allreduce (median), and bytes/s per rank pair of links as nccl-tests defines it."""

    bytes: int
    latency_seconds: float
    bus_bandwidth: float


class Hello(File):
    """What ``orchestrator check`` measured: every rank, the sum that proves the allreduce, latency per size.

    ``sizes`` lacks large messages, and ``step_work`` is less than 1, if these would have taken too long.
    ``step_seconds`` are those of the share ``step_work`` of a step whose arithmetic goes on while its gradients travel,
    on the slowest rank; None in a file of an older version.
    """

    size: int
    expected_sum: float
    ranks: list[HelloRank]
    sizes: list[HelloSize]
    step_seconds: float | None = None
    step_work: float = Field(1.0, gt=0.0, le=1.0)

    @property
    def whole_step_seconds(self) -> float | None:
        """Seconds of a whole step by proportion: what proofs of different ``step_work`` are compared by."""
        return None if self.step_seconds is None else self.step_seconds / self.step_work
