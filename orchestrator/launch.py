"""How a run is started, as argument lists. Pure: what is built here is what the tests compare and the head executes."""

import json

from pydantic import BaseModel, ConfigDict

from orchestrator.cluster import PYTHON, SHARED, Cluster, hostfile
from orchestrator.schema import FileName
from orchestrator.schema.file import Time

START_SECONDS, START_SECONDS_EACH = 120, 4  # for every rank to say that it is there; hosts that are shared need longer
CYCLE_TIME = 5.0  # milliseconds, for programs that measure nothing
STOP_SECONDS = 150  # what a trainer, the launcher and the sweep of every node are given, and some
LAUNCHER = "orchestrator.trainer.supervision.horovodrun"
AUTOTUNED = "autotune.csv"
UNIT = "orchestrator-"  # then the run's id
SEARCH_PATH = "/opt/orchestrator/bin:/usr/local/bin:/usr/bin:/bin"


class Run(BaseModel):
    """A run as the control side remembers it: ``runs/<id>/run.json`` in the state directory.

    ``threads`` and ``memory`` (bytes) are what each rank has on the poorest of its nodes. ``cycle_time`` (milliseconds)
    is measured or tuned where it is None, ``fusion_threshold`` (MiB) is Horovod's own or tuned.
    """

    model_config = ConfigDict(frozen=True)

    id: FileName
    kind: str
    command: list[str]
    workdir: str
    np: int
    controller: str
    interface: str
    cycle_time: float | None = None
    fusion_threshold: int | None = None
    autotune: bool = False
    threads: int
    memory: int
    started: Time

    @property
    def directory(self) -> str:
        """On every node."""
        return directory(self.id)

    @property
    def unit(self) -> str:
        return f"{UNIT}{self.id}"


def directory(run_id: str) -> str:
    return f"{SHARED}/runs/{run_id}"


def environment(run: Run) -> dict[str, str]:
    """What every rank finds in its environment. The launcher forwards it, and `ps` shows it: no secret belongs here."""
    return {
        "PATH": SEARCH_PATH,
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": str(run.threads),
        "TF_NUM_INTRAOP_THREADS": str(run.threads),
        "ORCHESTRATOR_RUN": run.id,
        "ORCHESTRATOR_RUN_DIR": run.directory,
        "ORCHESTRATOR_OUTPUT": f"{run.directory}/output",
        **({"ORCHESTRATOR_MEASURE_CYCLE": "1"} if _measures(run) else {}),
    }


def launch_command(run: Run) -> list[str]:
    """Horovodrun over the hosts of the run's hostfile, each rank inside our shim, which reads program.json."""
    seconds = str(START_SECONDS + START_SECONDS_EACH * run.np)
    return [
        *(PYTHON, "-m", LAUNCHER),
        f"--{run.controller}",
        *("-np", str(run.np)),
        *("--hostfile", f"{run.directory}/hostfile"),
        *("--network-interfaces", run.interface),
        *("--start-timeout", seconds),
        *(("--gloo-timeout-seconds", seconds) if run.controller == "gloo" else ()),
        *_tuning(run),
        "--disable-cache",
        *(PYTHON, "-m", "orchestrator.trainer.supervision.rank", run.directory),
    ]


def _tuning(run: Run) -> list[str]:
    """Horovod keeps what is given, and tunes the rest where it is to tune."""
    tuned = ["--autotune", "--autotune-log-file", f"{run.directory}/{AUTOTUNED}"] if run.autotune else []
    cycle_time = CYCLE_TIME if _measures(run) else run.cycle_time
    cycle = [] if cycle_time is None else ["--cycle-time-ms", f"{cycle_time:g}"]
    fusion = [] if run.fusion_threshold is None else ["--fusion-threshold-mb", str(run.fusion_threshold)]
    return [*cycle, *fusion, *tuned]


def _measures(run: Run) -> bool:
    """Whether the trainer is to measure which cycle suits the nodes: nobody said, and Horovod is not to tune it."""
    return run.cycle_time is None and not run.autotune


def unit_command(cluster: Cluster, run: Run) -> list[str]:
    """systemd-run on the head: a unit that outlives the connection, whose main process supervises the launcher.

    What is launched stands in files: systemd would expand ``$`` in arguments, and they have a longest length.
    """
    properties = {
        "WorkingDirectory": run.workdir,
        "StandardOutput": f"append:{run.directory}/log",
        "StandardError": f"append:{run.directory}/log",
        "KillMode": "mixed",
        "TimeoutStopSec": str(STOP_SECONDS),
        "OOMPolicy": "continue",
    }
    return [
        *("sudo", "systemd-run", "--quiet", "--collect", "--unit", run.unit, "--uid", cluster.ssh_user),
        *(part for key, value in properties.items() for part in ("--property", f"{key}={value}")),
        *(part for key, value in environment(run).items() for part in ("--setenv", f"{key}={value}")),
        *("--", PYTHON, "-m", "orchestrator.trainer.supervision.supervise", run.directory),
    ]


def files(cluster: Cluster, run: Run) -> dict[str, str]:
    """What the nodes read of a run, by name in its directory."""
    return {
        "hostfile": hostfile(cluster, run.np),
        "command.json": json.dumps(launch_command(run)) + "\n",
        "program.json": json.dumps(run.command) + "\n",
    }


def threads(cluster: Cluster) -> int:
    """Cores of a rank: those of the poorest node, shared by its slots; at least one."""
    return max(1, min(int(node.cpus / node.slots) for node in cluster.working.values()))
