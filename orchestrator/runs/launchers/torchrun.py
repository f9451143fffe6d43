"""PyTorch's torchrun: one elastic agent per host, which meet at a c10d store on the first host.

torchrun orders its agents by their addresses as text (``_NodeDesc`` in torch/distributed/elastic/rendezvous/
dynamic_rendezvous.py), so this is the order of ranks.
"""

from orchestrator.launch_layout import PORT, Process
from orchestrator.runs.launchers.launch_plan import Plan, Slots, filled, node_launcher, wrapper
from orchestrator.runs.run_record import Run


def plan(run: Run, slots: Slots) -> Plan:
    """Plan an agent for each host; each starts a wrapper for each of the host's ranks."""
    store, ordered = next(iter(slots)), dict(sorted(slots.items()))
    processes = {host: [Process(_agent(run, ordered, host, store))] for host in slots}
    return Plan(node_launcher(run), filled(ordered), processes, slots=ordered)


def _agent(run: Run, slots: Slots, host: str, store: str) -> list[str]:
    quiet = {"LOGLEVEL": "ERROR", "TORCH_CPP_LOG_LEVEL": "ERROR"}  # else agents complain that the first has ended
    return [
        *("env", *(f"{name}={level}" for name, level in quiet.items())),
        *("python", "-m", "torch.distributed.run"),
        *("--nnodes", str(len(slots))),
        *("--nproc-per-node", str(slots[host])),
        *("--rdzv-backend", "c10d"),
        *("--rdzv-endpoint", f"{store}:{PORT}"),
        *("--rdzv-conf", f"is_host={int(host == store)},join_timeout={run.start_seconds}"),
        *("--rdzv-id", run.id),
        *("--local-addr", host),
        *("--max-restarts", "0"),
        *("--no-python", "env", *(word for name in quiet for word in ("-u", name))),
        *wrapper(run),
    ]
