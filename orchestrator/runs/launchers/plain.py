"""One process per slot, and nothing else: each finds its rank in its environment."""

from orchestrator.runs.launchers.launch_plan import Plan, Slots, filled, node_launcher, wrappers
from orchestrator.runs.run_record import Run


def plan(run: Run, slots: Slots) -> Plan:
    """Plan a wrapper for each rank; ranks fill the hosts in order."""
    ranks = filled(slots)
    return Plan(node_launcher(run), ranks, wrappers(run, ranks))
