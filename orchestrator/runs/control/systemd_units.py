"""Units of systemd on the head that supervise runs: the command that starts one, and which still have processes."""

from collections.abc import Iterable, Mapping, Sequence

from orchestrator import grace_periods
from orchestrator.cluster import Cluster
from orchestrator.launch_layout import RAY_TOKEN
from orchestrator.runs import fetch_limits, run_record
from orchestrator.runs.launchers import launch_plan
from orchestrator.runs.run_record import Run
from orchestrator.ssh import Session

STATES = "--state=activating,active,deactivating"
KILLED = ("stop-sigkill", "final-sigkill")
LOCK = "/run/orchestrator-start.lock"
# Execute the command after the first argument unless a unit exists that is not in that argument; then print its name.
START = f"""
known="  $1  "
shift
units=$(systemctl list-units --no-legend --plain {STATES} '{run_record.UNIT}*.service') || exit
while read -r unit rest; do
  case "$known" in *" $unit "*) ;; *) echo "$unit"; exit ;; esac
done << END
$units
END
exec "$@"
"""
CGROUPS = ("/sys/fs/cgroup", "/sys/fs/cgroup/systemd")  # of cgroup version 2 and 1


def unit_command(cluster: Cluster, run: Run) -> list[str]:
    """Return the systemd-run command for root: a unit that outlives the connection and supervises the launcher.

    Commands are kept in files, since systemd expands ``$`` in arguments and limits their length.
    """
    supervisor = "start_queued_runs" if run.kind == run_record.QUEUE else "supervise"
    properties = {
        "WorkingDirectory": run.workdir,
        "StandardOutput": f"append:{run.directory}/log",
        "StandardError": f"append:{run.directory}/log",
        "KillMode": "mixed",
        "TimeoutStopSec": str(grace_periods.UNIT),
        "OOMPolicy": "continue",
        # also if the supervisor is killed
        "ExecStopPost": f"-rm -f {run.directory}/{run_record.ENVIRONMENT} {run.directory}/{RAY_TOKEN}",
    }
    return [
        *("systemd-run", "--quiet", "--collect", "--unit", run.unit, "--uid", cluster.ssh_user),
        *(part for key, value in properties.items() for part in ("--property", f"{key}={value}")),
        *(part for key, value in run_record.environment(run).items() for part in ("--setenv", f"{key}={value}")),
        *("--", *launch_plan.program(supervisor), run.directory),
    ]


def start(head: Session, cluster: Cluster, run: Run, known: Iterable[str]) -> str | None:
    """Start the unit of a run, unless the head has another one by now.

    A lock on the head lets commands of several machines do this one after another: they share no other lock.

    Args:
        head: Session on the head.
        cluster: Deployed cluster.
        run: Run with a command.
        known: Names of the units that :func:`listed` returned when the head was free.

    Returns:
        None, or the id of the run that was started first.

    Raises:
        CommandFailed: The head cannot start the unit.
    """
    guarded = ["sudo", "flock", LOCK, "sh", "-c", START, "sh", " ".join(known), *unit_command(cluster, run)]
    other = head.must("start the run", guarded).strip()
    return _run_ids(head, [other])[0] if other else None


def listed(head: Session) -> dict[str, list[str]]:
    """Return the words of systemd about all units of runs on the head, by the unit's name."""
    listing = ["sudo", "systemctl", "list-units", "--no-legend", "--plain", STATES, f"{run_record.UNIT}*.service"]
    lines = filter(None, map(str.split, head.must("list runs", listing).splitlines()))
    return {unit: state for unit, *state in lines}


def active(head: Session, units: Mapping[str, list[str]] | None = None) -> list[str]:
    """Return the ids of runs that have a unit on the head, except units whose processes systemd has killed.

    ``units`` are those that :func:`listed` has just returned, if it was called.
    """
    units = listed(head) if units is None else units
    killed = (unit for unit, state in units.items() if state[2:3] and state[2] in KILLED)
    ended = {unit for unit in killed if _is_empty(head, unit)}
    return _run_ids(head, [unit for unit in units if unit not in ended])


def _run_ids(head: Session, units: Sequence[str]) -> list[str]:
    runs = [unit.removeprefix(run_record.UNIT).removesuffix(".service") for unit in units]
    return fetch_limits.run_ids(runs, head)


def _is_empty(head: Session, unit: str) -> bool:
    """Tell whether no process of a unit is left.

    If only its main process was killed, systemd kills the others. With cgroup version 1, systemd in a container then
    does not learn that they have ended, and keeps the unit for its TimeoutStopSec, which is minutes.
    """
    show = ["sudo", "systemctl", "show", "--property", "ControlGroup", "--value", unit]
    group = head.must("find the processes of the run", show).strip()
    answers = (head.run(["cat", f"{root}{group}/cgroup.procs"]) for root in CGROUPS)
    processes = next((answer for answer in answers if answer.exit_code == 0), None)
    return not group or (processes is not None and not processes.output.strip())
