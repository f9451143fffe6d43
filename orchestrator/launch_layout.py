"""Content of ``launch.json``: the host of every rank of a run, and the processes of every host.

The control side writes it with the run's other files. Standard library only, since every rank's wrapper reads it.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

FILE = "launch.json"
SEARCH_PATH = "/opt/orchestrator/bin:/usr/local/bin:/usr/bin:/bin"  # of programs on every host
FIRST_PORT = "ORCHESTRATOR_PORT"  # variable with the first port of the run: rank 0's, then one per rank
PORT = "{port}"  # in arguments of processes: replaced by the first port, which the head chooses
WORKER, CHIEF, PARAMETER_SERVER = "worker", "chief", "ps"  # roles of tf.distribute
RAY = "ray.scripts.scripts"  # module of Ray's command line, which starts its daemon on a host
RAY_TOKEN = "ray_token"  # noqa: S105  a file in the run's directory: the secret of the run's Ray cluster, while it runs
VISIBLE_GPUS = "CUDA_VISIBLE_DEVICES"  # CUDA's variable; a user may hide GPUs by it


class Process(NamedTuple):
    """Process that a host's agent starts: the wrapper of ``rank``, or a program without a rank.

    The output of a program with a ``log`` goes to that file in the run's directory, and is shown if the program fails.
    """

    argv: list[str]
    rank: "int | None" = None
    log: "str | None" = None


class Layout(NamedTuple):
    """Launch of a run.

    Attributes:
        slots: Ranks that each host can take, by address, in the order of ranks.
        ranks: Address of the host of each rank.
        interface: Network interface that connects the hosts.
        threads: Threads of a rank.
        start_seconds: Time limit for all ranks to start.
        processes: Processes that the agent of each host starts; empty if the launcher starts its own agents.
        roles: Role of each rank in tf.distribute; empty if all are workers.
        gpus: Number of GPUs of each host that its workers divide among them; None if every rank sees all.
        trainer: Whether the ranks run this project's trainer, which can end with a checkpoint, not a user's script.
    """

    slots: dict[str, int]
    ranks: list[str]
    interface: str
    threads: int
    start_seconds: float
    processes: "dict[str, list[Process]]"
    roles: "Sequence[str]" = ()
    gpus: "Mapping[str, int] | None" = None
    trainer: bool = False

    @property
    def has_leader(self) -> bool:
        """Whether the run ends when rank 0 ends, since the other processes serve it and do not end by themselves."""
        with_rank = {process.rank is not None for started in self.processes.values() for process in started}
        return with_rank == {True, False} or PARAMETER_SERVER in self.roles

    @property
    def has_ray(self) -> bool:
        """Whether a process is a daemon of Ray."""
        return any(RAY in process.argv for started in self.processes.values() for process in started)

    def role(self, rank: int) -> str:
        """Return the role of a rank."""
        return self.roles[rank] if self.roles else WORKER

    def with_role(self, role: str) -> list[int]:
        """Return the ranks that have a role."""
        return [rank for rank in range(len(self.ranks)) if self.role(rank) == role]

    def local_rank(self, rank: int) -> int:
        """Return the number of a rank on its host; workers come first, since others need no GPU."""
        here = [other for other, host in enumerate(self.ranks) if host == self.ranks[rank]]
        return sorted(here, key=lambda other: self.role(other) != WORKER).index(rank)

    def cross_ranks(self, rank: int) -> list[int]:
        """Return the ranks with the same number on their hosts, one per host."""
        return [other for other in range(len(self.ranks)) if self.local_rank(other) == self.local_rank(rank)]

    def text(self) -> str:
        """Return the content of the file."""
        return json.dumps(self._asdict()) + "\n"


def scratch(run: str) -> str:
    """Return the directory for temporary files of a run's daemons on each host; its agent removes it.

    The path is short whatever the run is called: it contains Ray's sockets, whose paths have at most 107 bytes.
    """
    return f"/tmp/run-{hashlib.sha256(run.encode()).hexdigest()[:12]}"  # noqa: S108  its name follows from the run's


def read(run_directory: Path) -> Layout:
    """Read the launch of a run; unknown keys are ignored."""
    values: Mapping[str, object] = json.loads((run_directory / FILE).read_text())
    layout = Layout(**{key: values[key] for key in Layout._fields if key in values})  # type: ignore[arg-type]
    return layout._replace(
        processes={host: [Process(*process) for process in started] for host, started in layout.processes.items()}
    )
