"""Values that many tests use. Each function takes the fields that a test needs and fills in the rest."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from orchestrator import cluster as clusters
from orchestrator import state
from orchestrator.ansible import inventory as inventories
from orchestrator.cluster import Cluster
from orchestrator.config import Config
from orchestrator.runs.run_record import Run
from orchestrator.schema import (
    CheckMessage,
    CheckRank,
    CheckResult,
    Epoch,
    Hardware,
    NodeReport,
    Profile,
    Ready,
    Results,
    Scores,
    World,
)
from orchestrator.state import Record, StateDir
from orchestrator.trainer.supervision.rank_record import RankRecord
from tests import samples

DIGEST = "0123456789ab"


def output(nodes: int = 2, slots: int = 1, cpus: float = 2.0, gpus: int = 0) -> dict[str, Any]:
    """Return Terraform's output `cluster`: a head and ``nodes`` - 1 workers."""
    names = ["demo-head", *(f"demo-worker-{number}" for number in range(nodes - 1))]
    return {
        "name": "demo",
        "ssh_user": "orchestrator",
        "nodes": {
            name: {
                "id": f"id-{number}",
                "role": "worker" if number else "head",
                "public_address": None,
                "private_address": f"10.0.0.{10 + number}",
                "cpus": cpus,
                "gpus": gpus,
                "slots": slots,
            }
            for number, name in enumerate(names)
        },
    }


def cluster(nodes: int = 2, slots: int = 1, cpus: float = 2.0, gpus: int = 0) -> Cluster:
    return clusters.read(output(nodes, slots, cpus, gpus))


def host_keys(deployed_cluster: Cluster) -> dict[str, str]:
    """Return a pinned host key for every node, by its id."""
    return {node.id: f"ssh-ed25519 AAAA{node.id}" for node in deployed_cluster.nodes.values()}


def inventory(deployed_cluster: Cluster, **settings: Any) -> dict[str, Any]:
    return inventories.inventory(
        deployed_cluster, Path("state/id_ed25519"), Path("state/known_hosts"), host_keys(deployed_cluster), settings
    )


def run(**changes: Any) -> Run:
    values: dict[str, Any] = {
        "id": "resnet20-mnist-1",
        "kind": "resnet20-mnist",
        "command": ["python", "train.py"],
        "workdir": "/shared/runs/resnet20-mnist-1",
        "np": 2,
        "controller": "gloo",
        "interface": "eth0",
        "cycle_time": 5.0,
        "threads": 2,
        "memory": 8 << 30,
        "started": 1.0,
    }
    return Run(**{**values, **changes})


def deployed(name: str = "default", nodes: int = 2, provider: str = "local") -> StateDir:
    """Write a state directory of a deployed cluster."""
    state_dir, built = state.for_cluster(name), cluster(nodes)
    values = {**Config(name=name, nodes=nodes).model_dump(mode="json"), "provider": provider}
    state.write(state_dir, Record(id="1a2b3c4d", config=values, cluster=built, host_keys=host_keys(built)))
    return state_dir


def read_record(state_dir: StateDir) -> Record:
    """Read the record of a directory that :func:`deployed` wrote."""
    record = state.read(state_dir)
    assert record is not None
    return record


def node_report(**changes: Any) -> NodeReport:
    """Return the report of a healthy node."""
    values: dict[str, Any] = {
        "hostname": "demo-head",
        "resolves": True,
        "interface": "eth0",
        "interfaces": ["lo", "eth0"],
        "digest": DIGEST,
        "shared_writable": True,
        "shared_free": 100 << 30,
        "memory": 6 << 30,
        "memory_available": 4 << 30,
        "runs": [],
        "unreachable": {},
    }
    return NodeReport(**{**values, **changes})


def rank(number: int, exit_code: int | None = 0, ended: float = 2.0, terminated: bool = False) -> RankRecord:
    return RankRecord(
        rank=number,
        host=f"host-{number}",
        pid=100 + number,
        started=1.0,
        ended=ended,
        exit_code=exit_code,
        terminated=terminated,
    )


def epoch(number: int, **changes: Any) -> Epoch:
    """Return an epoch of four steps on two ranks."""
    scores = Scores(loss=0.25, top1=0.9, top5=1.0, images=1000)
    values: dict[str, Any] = {
        "epoch": number,
        "steps": 4 * number,
        "learning_rate": 0.1,
        "train": scores,
        "test": scores,
        "images_per_second": 400.0,
        "images_per_second_per_rank": [200.0, 200.0],
        "peak_memory_per_rank": [1, 1],
        "seconds": 3.0,
        "test_seconds": 1.0,
        "weights_sha256": "00",
    }
    return Epoch(**{**values, **changes})


def hardware(**changes: Any) -> Hardware:
    values: dict[str, Any] = {
        "architecture": "x86_64",
        "cpu_model": "Xeon",
        "cpu_flags": ["avx", "avx2"],
        "cpus": 4,
        "memory": 8 << 30,
        "kernel": "6.1",
        "nic_mbits": 10_000,
    }
    return Hardware(**{**values, **changes})


def profile(**changes: Any) -> Profile:
    """Return the profile of a run of one rank with two parts of gradients."""
    values: dict[str, Any] = {
        "run": "resnet20-mnist-0",
        "model": "resnet20",
        "dataset": "mnist",
        "image_size": 28,
        "classes": 10,
        "batch": 32,
        "precision": "float32",
        "threads": 2,
        "on_gpu": False,
        "gradients": [Ready(8_000_000, 0.3), Ready(2_000_000, 0.0)],
        "steps": [1.0, 1.0],
    }
    return Profile(**{**values, **changes})


def check(messages: Sequence[CheckMessage], hosts: Sequence[str] = ("demo-head", "demo-worker-0")) -> CheckResult:
    """Return a check of a rank on each of ``hosts``, which may repeat."""
    total = len(hosts) * (len(hosts) + 1) / 2
    ranks = [
        CheckRank(rank=rank, host=host, local_rank=hosts[:rank].count(host), allreduce_sum=total)
        for rank, host in enumerate(hosts)
    ]
    measured = {"sizes": list(messages), "step_seconds": 1.0, "step_work": 1.0}
    return CheckResult(size=len(hosts), expected_sum=total, ranks=ranks, **measured)


def results(epochs: list[Epoch], world: World | None = None, **config: Any) -> Results:
    """Return the results after these epochs of a run of samples.train_config, changed by ``config``."""
    resolved = samples.train_config(**config)
    return Results(
        run=resolved.run,
        config=resolved,
        versions={},
        world=world or World(size=2, hosts=["demo-head", "demo-worker-0"]),
        parameters=1,
        effective_batch_size=64,
        peak_learning_rate=0.2,
        epochs=epochs,
        ended="epochs",
    )
