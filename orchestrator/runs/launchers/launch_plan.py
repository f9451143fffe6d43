"""Plan of a launch: the command on the head, the wrappers of ranks, and the processes of every host."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from orchestrator.cluster import PYTHON
from orchestrator.launch_layout import Process
from orchestrator.runs.run_record import Run

SUPERVISION = "orchestrator.trainer.supervision"
Slots = Mapping[str, int]  # ranks on each host, by address


@dataclass(frozen=True)
class Plan:
    """Commands and ranks of one launch.

    Attributes:
        command: Command that the head executes.
        ranks: Host of each rank that has a wrapper.
        processes: Processes that the agent of each host starts; empty if the command starts the ranks itself.
        roles: Role of each rank in tf.distribute; empty if all are workers.
        slots: Slots in the launcher's own order of hosts; empty for the order of the hostfile.
        divides_gpus: Whether the workers of a host divide its GPUs among them; else every rank sees all.
    """

    command: list[str]
    ranks: list[str]
    processes: dict[str, list[Process]] = field(default_factory=dict)
    roles: list[str] = field(default_factory=list)
    slots: Slots = field(default_factory=dict)
    divides_gpus: bool = False


def program(name: str) -> list[str]:
    """Return the command of a program of SUPERVISION.

    It runs in the directory of the script, which may have an ``orchestrator.py``: -P imports nothing from there.
    """
    return [PYTHON, "-P", "-m", f"{SUPERVISION}.{name}"]


def wrapper(run: Run) -> list[str]:
    """Return the command of a rank: the wrapper that executes program.json."""
    return [*program("rank_wrapper"), run.directory]


def node_launcher(run: Run) -> list[str]:
    """Return the launcher that starts the processes of launch.json by an agent on every host."""
    return [*program("node_launcher"), run.directory]


def filled(slots: Slots) -> list[str]:
    """Return the host of each rank if ranks fill the hosts in order."""
    return [host for host, count in slots.items() for _ in range(count)]


def wrappers(run: Run, ranks: list[str]) -> dict[str, list[Process]]:
    """Return a wrapper for each rank, by the rank's host."""
    processes: dict[str, list[Process]] = {}
    for rank, host in enumerate(ranks):
        processes.setdefault(host, []).append(Process(wrapper(run), rank))
    return processes
