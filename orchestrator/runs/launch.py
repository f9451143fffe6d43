"""Argument lists that start a run. Pure, so that tests can compare the lists that the head executes."""

import json

from pydantic import BaseModel, ConfigDict

from orchestrator.cluster import PYTHON, SHARED, Cluster, hostfile
from orchestrator.schema import FileName
from orchestrator.schema.file import Time

START_SECONDS, START_SECONDS_EACH = 120, 4  # for every rank to report; shared hosts need longer
CYCLE_TIME = 5.0  # milliseconds, for programs that do not measure it
STOP_SECONDS = 150  # limits of trainer, launcher and sweep of all nodes together, with a margin
LAUNCHER = "orchestrator.trainer.supervision.horovodrun"
AUTOTUNED = "autotune.csv"
UNIT = "orchestrator-"  # then the run's id
SEARCH_PATH = "/opt/orchestrator/bin:/usr/local/bin:/usr/bin:/bin"


class Run(BaseModel):
    """The control side's record of a run: ``runs/<id>/run.json`` in the state directory.

    ``threads`` and ``memory`` (bytes) are per rank, on the node with the least. ``cycle_time`` (milliseconds) is
    measured or tuned if None; ``fusion_threshold`` (MiB) is Horovod's default or tuned if None. ``packages`` is the
    directory of the overlay of Python packages, None for the image's alone.
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
    packages: str | None = None
    started: Time

    @property
    def directory(self) -> str:
        """Return the run's directory, the same on every node."""
        return directory(self.id)

    @property
    def unit(self) -> str:
        """Return the name of the run's systemd unit on the head."""
        return f"{UNIT}{self.id}"


def directory(run_id: str) -> str:
    """Return the directory of a run on every node."""
    return f"{SHARED}/runs/{run_id}"


def environment(run: Run) -> dict[str, str]:
    """Return every rank's environment. The launcher forwards it and `ps` shows it, so it must hold no secrets."""
    return {
        "PATH": f"{run.packages}/bin:{SEARCH_PATH}" if run.packages else SEARCH_PATH,
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
    """Return the horovodrun command over the run's hostfile; each rank runs in a wrapper that reads program.json."""
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
        *(PYTHON, "-m", "orchestrator.trainer.supervision.rank_wrapper", run.directory),
    ]


def _tuning(run: Run) -> list[str]:
    """Return Horovod's tuning options: Horovod keeps the values that are set and, with autotune, tunes the others."""
    tuned = ["--autotune", "--autotune-log-file", f"{run.directory}/{AUTOTUNED}"] if run.autotune else []
    cycle_time = CYCLE_TIME if _measures(run) else run.cycle_time
    cycle = [] if cycle_time is None else ["--cycle-time-ms", f"{cycle_time:g}"]
    fusion = [] if run.fusion_threshold is None else ["--fusion-threshold-mb", str(run.fusion_threshold)]
    return [*cycle, *fusion, *tuned]


def _measures(run: Run) -> bool:
    """Tell whether the trainer measures the cycle time: it is not set, and Horovod does not tune it."""
    return run.cycle_time is None and not run.autotune


def unit_command(cluster: Cluster, run: Run) -> list[str]:
    """Return the systemd-run command for the head: a unit that outlives the connection and supervises the launcher.

    Commands are kept in files, since systemd expands ``$`` in arguments and limits their length.
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
    """Return the contents of the run's files for the nodes, by name in its directory."""
    return {
        "hostfile": hostfile(cluster, run.np),
        "command.json": json.dumps(launch_command(run)) + "\n",
        "program.json": json.dumps(run.command) + "\n",
    }


def threads(cluster: Cluster) -> int:
    """Return the threads of a rank: the fewest cores per slot of any node with ranks; at least one."""
    return max(1, min(int(node.cpus / node.slots) for node in cluster.rank_nodes.values()))
