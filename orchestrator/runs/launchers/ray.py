"""Ray: a cluster over the nodes for the time of the run, and the script once, on the first host.

Its ports are reached only from the nodes' private network, and its dashboard only from the head itself; all of them ask
for the run's token. Sources: Ray's pages "Launching an On-Premise Cluster" and "Ray token authentication".
"""

from orchestrator.launch_layout import PORT, RAY, Process, scratch
from orchestrator.runs.launchers.launch_plan import Plan, Slots, node_launcher, program, wrapper
from orchestrator.runs.run_record import Run

DASHBOARD_PORT = 8265  # Ray's own


def plan(run: Run, slots: Slots) -> Plan:
    """Plan Ray's daemon on each host, and the script's wrapper, as rank 0, once every host has joined."""
    head = next(iter(slots))
    processes = {host: [Process(_daemon(run, slots, host, head), log=f"ray-{host}.log")] for host in slots}
    processes[head].append(Process(_driver(run, slots, head), 0))
    return Plan(node_launcher(run), [head], processes)


def _daemon(run: Run, slots: Slots, host: str, head: str) -> list[str]:
    dashboard = ["--dashboard-host", "127.0.0.1", "--dashboard-port", str(DASHBOARD_PORT)]
    join = ["--head", "--port", PORT, *dashboard] if host == head else ["--address", f"{head}:{PORT}"]
    return [
        # Workers get the Python of the daemon: the overlay's, if the run has one. The program `ray` names the image's.
        *("python", "-m", RAY, "start", "--block", "--disable-usage-stats", *join),
        *("--node-ip-address", host),
        *("--num-cpus", str(slots[host] * run.threads)),
        *(("--temp-dir", scratch(run.id)) if host == head else ()),
    ]


def _driver(run: Run, slots: Slots, head: str) -> list[str]:
    joined = ["python", *program("ray_nodes")[1:], str(len(slots)), str(run.start_seconds)]  # the Python that has Ray
    return ["env", f"RAY_ADDRESS={head}:{PORT}", *joined, *wrapper(run)]
