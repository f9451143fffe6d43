"""Variables that every rank gets under any launcher: those of Horovod, PyTorch and tf.distribute.

So a script for one of them runs under any launcher. Variables that the launcher set are kept. Sources: Horovod's
``gloo_run.py`` (``create_slot_env_vars``, ``create_run_env_vars``), PyTorch's page on torchrun, TensorFlow's guide to
distributed training (``TF_CONFIG``).
"""

import json
from collections import Counter
from collections.abc import Mapping

from orchestrator.launch_layout import FIRST_PORT, VISIBLE_GPUS, WORKER, Layout

OPEN_MPI = "OMPI_COMM_WORLD_RANK"
RANK_VARIABLES = ("HOROVOD_RANK", OPEN_MPI, "RANK")  # horovodrun, mpirun, torchrun and the node agent
DEFAULT_PORT = "29500"  # PyTorch's own, for ranks without a supervisor
RENDEZVOUS_PORT = "ORCHESTRATOR_RENDEZVOUS_PORT"  # of the server at which Horovod's ranks meet over Gloo
RENDEZVOUS_HOST = "ORCHESTRATOR_RENDEZVOUS_HOST"
NCCL_INTERFACE = "NCCL_SOCKET_IFNAME"


def variable(environment: Mapping[str, str]) -> str:
    """Return the variable in which the launcher names the rank."""
    return next(name for name in RANK_VARIABLES if environment.get(name))


def complete(layout: Layout, environment: Mapping[str, str]) -> dict[str, str]:
    """Add to a launcher's ``environment`` of a rank what the launcher did not set."""
    rank = int(environment[variable(environment)])
    port = int(environment.get(FIRST_PORT, DEFAULT_PORT))
    added = {
        **interfaces(layout),
        **_pytorch(layout, rank, port),
        **_tensorflow(layout, rank, port),
        **_horovod(layout, rank, environment),
        **_gpu(layout, rank),
    }
    prefix = (NCCL_INTERFACE, layout.interface)  # horovodrun's
    return {**added, **dict(item for item in environment.items() if item != prefix)}


def interfaces(layout: Layout) -> dict[str, str]:
    """Return the interface between the hosts for each library; NCCL takes a name without "=" for a prefix."""
    interface = layout.interface
    return {"GLOO_SOCKET_IFNAME": interface, NCCL_INTERFACE: f"={interface}", "TP_SOCKET_IFNAME": interface}


def _gpu(layout: Layout, rank: int) -> dict[str, str]:
    """Let each of several workers of a host see one of its GPUs, and other roles none.

    If every host has one worker, it sees all GPUs: MirroredStrategy divides them itself.
    """
    if not layout.gpus:
        return {}
    if layout.role(rank) != WORKER:
        return {VISIBLE_GPUS: "-1"}
    workers = Counter(layout.ranks[worker] for worker in layout.with_role(WORKER))
    if max(workers.values()) == 1:
        return {}
    return {VISIBLE_GPUS: str(layout.local_rank(rank) % layout.gpus[layout.ranks[rank]])}


def _pytorch(layout: Layout, rank: int, port: int) -> dict[str, str]:
    host = layout.ranks[rank]
    node = list(layout.slots).index(host)
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(len(layout.ranks)),
        "LOCAL_RANK": str(layout.local_rank(rank)),
        "LOCAL_WORLD_SIZE": str(layout.ranks.count(host)),
        "NODE_RANK": str(node),
        "GROUP_RANK": str(node),
        "MASTER_ADDR": layout.ranks[0],
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": str(layout.threads),
    }


def _tensorflow(layout: Layout, rank: int, port: int) -> dict[str, str]:
    tasks = [f"{host}:{port + 1 + other}" for other, host in enumerate(layout.ranks)]
    members = {role: layout.with_role(role) for role in dict.fromkeys(map(layout.role, range(len(layout.ranks))))}
    task = {"type": layout.role(rank), "index": members[layout.role(rank)].index(rank)}
    cluster = {role: [tasks[member] for member in ranks] for role, ranks in members.items()}
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}


def _horovod(layout: Layout, rank: int, environment: Mapping[str, str]) -> dict[str, str]:
    host = layout.ranks[rank]
    cross = layout.cross_ranks(rank)
    variables = {
        "HOROVOD_HOSTNAME": host,
        "HOROVOD_RANK": str(rank),
        "HOROVOD_SIZE": str(len(layout.ranks)),
        "HOROVOD_LOCAL_RANK": str(layout.local_rank(rank)),
        "HOROVOD_LOCAL_SIZE": str(layout.ranks.count(host)),
        "HOROVOD_CROSS_RANK": str(cross.index(rank)),
        "HOROVOD_CROSS_SIZE": str(len(cross)),
    }
    if OPEN_MPI in environment:
        variables |= {"HOROVOD_CONTROLLER": "mpi", "HOROVOD_CPU_OPERATIONS": "mpi"}
    elif RENDEZVOUS_PORT in environment:
        variables |= {
            "HOROVOD_CONTROLLER": "gloo",
            "HOROVOD_CPU_OPERATIONS": "gloo",
            "HOROVOD_GLOO_RENDEZVOUS_ADDR": environment[RENDEZVOUS_HOST],
            "HOROVOD_GLOO_RENDEZVOUS_PORT": environment[RENDEZVOUS_PORT],
            "HOROVOD_GLOO_IFACE": layout.interface,
            "HOROVOD_GLOO_TIMEOUT_SECONDS": f"{layout.start_seconds:.0f}",
        }
    return variables
