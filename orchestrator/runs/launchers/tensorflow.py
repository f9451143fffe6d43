"""tf.distribute: workers alone, or a chief, workers and parameter servers.

Roles reach the ranks in ``TF_CONFIG``. With parameter servers the chief coordinates (rank 0), every slot has a worker,
and the servers share the hosts' slots with them: they wait for the network most of the time. A process takes all GPUs
that it sees, so workers on one host divide its GPUs. Source: TensorFlow's guides "Distributed training" and "Parameter
server training".
"""

from dataclasses import replace
from itertools import cycle, islice

from orchestrator.launch_layout import CHIEF, PARAMETER_SERVER, WORKER
from orchestrator.runs.launchers import plain
from orchestrator.runs.launchers.launch_plan import Plan, Slots, filled, node_launcher, wrappers
from orchestrator.runs.run_record import Run


def plan(run: Run, slots: Slots) -> Plan:
    """Plan a wrapper for each task; parameter servers begin on the last host, since the chief is on the first."""
    if not run.parameter_servers:
        return replace(plain.plan(run, slots), divides_gpus=True)
    workers, servers = filled(slots), run.parameter_servers
    ranks = [workers[0], *workers, *islice(cycle(reversed(list(slots))), servers)]
    roles = [CHIEF, *(WORKER for _ in workers), *(PARAMETER_SERVER for _ in range(servers))]
    return Plan(node_launcher(run), ranks, wrappers(run, ranks), roles, divides_gpus=True)
