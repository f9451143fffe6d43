"""Record of a run, and the environment of its ranks. Pure."""

from pydantic import BaseModel, ConfigDict, Field

from orchestrator.cluster import SHARED, Cluster
from orchestrator.launch_layout import SEARCH_PATH
from orchestrator.schema import FileName, Hardware
from orchestrator.schema.file_model import Time

START_SECONDS, START_SECONDS_EACH = 120, 4  # for every rank to report; shared hosts need longer
UNIT = "orchestrator-"  # then the run's id
QUEUE = "queue"  # kind of run that starts other runs
SCRIPT = "script"  # kind of the runs of users' scripts
# The C library asks for huge pages (madvise), of which a pass over all activations touches fewer. glibc 2.35 and later.
HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
ENVIRONMENT = "environment.json"  # in the run's directory; trainer.supervision.user_variables reads it


class Run(BaseModel):
    """The control side's record of a run: ``runs/<id>/run.json`` in the state directory.

    ``threads`` and ``memory`` (bytes) are per rank, on the node with the least. ``cycle_time`` (milliseconds) is
    5 or tuned if None; ``fusion_threshold`` (MiB) is Horovod's default or tuned if None. ``packages`` is the
    directory of the overlay of Python packages, None for the image's alone. ``queue`` is the id of the queue that
    starts the run, None if it starts at once. ``hardware`` of each node goes into ``provenance.json`` as the run
    starts.
    """

    model_config = ConfigDict(frozen=True)

    id: FileName
    kind: str
    command: list[str]
    workdir: str
    np: int
    launcher: str = "horovod"
    parameter_servers: int = 0
    controller: str
    interface: str
    cycle_time: float | None = None
    fusion_threshold: int | None = None
    autotune: bool = False
    threads: int
    memory: int
    packages: str | None = None
    queue: str | None = None
    started: Time
    hardware: dict[str, Hardware] = Field({}, exclude=True)

    @property
    def is_script(self) -> bool:
        """Return whether the run executes a user's script instead of the trainer."""
        return self.kind == SCRIPT

    @property
    def directory(self) -> str:
        """Return the run's directory, the same on every node."""
        return directory(self.id)

    @property
    def start_seconds(self) -> int:
        """Return the time limit for all ranks to start."""
        return START_SECONDS + START_SECONDS_EACH * self.np

    @property
    def unit(self) -> str:
        """Return the name of the systemd unit on the head that supervises the run: its own, or its queue's."""
        return f"{UNIT}{self.queue or self.id}"


def directory(run_id: str) -> str:
    """Return the directory of a run on every node."""
    return f"{SHARED}/runs/{run_id}"


def environment(run: Run) -> dict[str, str]:
    """Return every rank's environment. The launcher forwards it and `ps` shows it, so it must hold no secrets."""
    return {
        **({} if run.kind in (SCRIPT, QUEUE) else HUGE_PAGES),
        "PATH": f"{run.packages}/bin:{SEARCH_PATH}" if run.packages else SEARCH_PATH,
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": str(run.threads),
        "TF_NUM_INTRAOP_THREADS": str(run.threads),
        "ORCHESTRATOR_RUN": run.id,
        "ORCHESTRATOR_RUN_DIR": run.directory,
        "ORCHESTRATOR_OUTPUT": f"{run.directory}/output",
    }


def threads(cluster: Cluster, slots: int | None = None) -> int:
    """Return the threads of a rank: the fewest cores per slot of any node with ranks; at least one.

    ``slots`` are the ranks of a node, if not as deployed.
    """
    return max(1, min(int(node.cpus / (slots or node.slots)) for node in cluster.rank_nodes.values()))
