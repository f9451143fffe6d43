"""Launch, follow, stop and collect runs. A run belongs to the head; the control side only records it."""

from orchestrator.runs.control.end_runs import remove_environments, stop, sweep
from orchestrator.runs.control.head_sessions import head_session
from orchestrator.runs.control.launch_run import NodeResources, check_nodes, plan, start
from orchestrator.runs.control.read_logs import await_end, log, watch
from orchestrator.runs.control.run_states import ACTIVE, RunState, cause, describe, get_state, overview
from orchestrator.runs.control.systemd_units import active

__all__ = [
    "ACTIVE",
    "NodeResources",
    "RunState",
    "active",
    "await_end",
    "cause",
    "check_nodes",
    "describe",
    "get_state",
    "head_session",
    "log",
    "overview",
    "plan",
    "remove_environments",
    "start",
    "stop",
    "sweep",
    "watch",
]
