"""horovodrun, over Gloo or over MPI."""

from orchestrator.runs.launchers.launch_plan import Plan, Slots, filled, program, wrapper
from orchestrator.runs.run_record import Run

AUTOTUNED = "autotune.csv"
CYCLE_TIME = 5.0  # milliseconds, unless the run or Horovod's autotuning chooses it


def plan(run: Run, slots: Slots) -> Plan:
    """Plan horovodrun, which fills the hosts in order and starts the ranks itself."""
    return Plan(command(run), filled(slots))


def command(run: Run) -> list[str]:
    """Return the horovodrun command over the run's hostfile; each rank runs in a wrapper that reads program.json."""
    seconds = str(run.start_seconds)
    return [
        *program("horovodrun"),
        f"--{run.controller}",
        *("-np", str(run.np)),
        *("--hostfile", f"{run.directory}/hostfile"),
        *("--network-interfaces", run.interface),
        *("--start-timeout", seconds),
        *(("--gloo-timeout-seconds", seconds) if run.controller == "gloo" else ()),
        *_tuning(run),
        "--disable-cache",
        *wrapper(run),
    ]


def _tuning(run: Run) -> list[str]:
    """Return Horovod's tuning options: Horovod keeps the values that are set and, with autotune, tunes the others."""
    tuned = ["--autotune", "--autotune-log-file", f"{run.directory}/{AUTOTUNED}"] if run.autotune else []
    cycle_time = CYCLE_TIME if run.cycle_time is None and not run.autotune else run.cycle_time
    cycle = [] if cycle_time is None else ["--cycle-time-ms", f"{cycle_time:g}"]
    fusion = [] if run.fusion_threshold is None else ["--fusion-threshold-mb", str(run.fusion_threshold)]
    return [*cycle, *fusion, *tuned]
