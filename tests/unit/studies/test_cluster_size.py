"""Size of the cluster of a study, as it is deployed or configured."""

import cProfile
from typing import Any

import pytest

from orchestrator import state
from orchestrator.cluster import Cluster
from orchestrator.config import Config
from orchestrator.studies import cluster_size
from tests import builders

ON_GPUS = {"head": {"gpus": 0}, "worker": {"gpus": 2}}


def deployed(cluster: Cluster, **changes: Any) -> None:
    state_dir = builders.deployed()
    record = builders.read_record(state_dir)
    state.write(state_dir, record.model_copy(update={"cluster": cluster, **changes}))


def without_gpus_on_the_head(nodes: int) -> Cluster:
    built = builders.cluster(nodes, slots=2, gpus=2)
    head = built.nodes[built.head].model_copy(update={"gpus": 0, "slots": 8})
    return built.model_copy(update={"nodes": {**built.nodes, built.head: head}})


def test_size_of_a_cluster_to_come_is_configured() -> None:
    assert cluster_size.read(Config(nodes=3, slots=2)) == (3, 2, 0)
    assert cluster_size.read(Config(nodes=3)) == (3, 1, 0)


def test_deployed_size_takes_precedence() -> None:
    deployed(builders.cluster(2, slots=4))
    assert cluster_size.read(Config(nodes=3, slots=2)) == (2, 4, 0)


@pytest.mark.parametrize(("nodes", "applied", "size"), [(3, {}, (3, 2, 1)), (1, {"local": ON_GPUS}, (1, 8, 1))])
def test_head_without_a_gpu_is_idle_beside_workers_with_gpus(
    nodes: int, applied: dict[str, Any], size: tuple[int, int, int]
) -> None:
    deployed(without_gpus_on_the_head(nodes), applied=applied)
    assert cluster_size.read(Config()) == size


def test_cluster_is_read_once() -> None:
    deployed(without_gpus_on_the_head(3))
    profile = cProfile.Profile()
    profile.runcall(cluster_size.read, Config())
    [calls] = [entry.callcount for entry in profile.getstats() if entry.code is state.read.__code__]
    assert calls == 1
