"""Open MPI's mpirun, for programs of MPI (mpi4py), with the options that horovodrun gives it."""

from orchestrator.launch_layout import FIRST_PORT
from orchestrator.runs.launchers.launch_plan import Plan, Slots, filled, wrapper
from orchestrator.runs.run_record import Run, environment


def plan(run: Run, slots: Slots) -> Plan:
    """Plan mpirun, which fills the hosts in order and starts the ranks itself."""
    passed_on = [word for name in (*environment(run), FIRST_PORT) for word in ("-x", name)]
    command = [
        *("mpirun", "--tag-output"),
        *("-np", str(run.np)),
        *("-H", ",".join(f"{host}:{count}" for host, count in slots.items())),
        *("--bind-to", "none", "--map-by", "slot"),
        *("--mca", "pml", "ob1", "--mca", "btl", "^openib"),
        *("--mca", "btl_tcp_if_include", run.interface, "--mca", "oob_tcp_if_include", run.interface),
        *passed_on,
        *wrapper(run),
    ]
    return Plan(command, filled(slots))
