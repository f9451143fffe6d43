"""Variables of every rank."""

import json
import math

import pytest

from orchestrator.launch_layout import Layout
from orchestrator.trainer.supervision import rank_environment

HOSTS = ["10.0.0.1", "10.0.0.1", "10.0.0.2"]
LAYOUT = Layout({"10.0.0.1": 2, "10.0.0.2": 1}, HOSTS, "eth0", 3, 132.0, {})
PORTS = {"ORCHESTRATOR_PORT": "20100"}
RENDEZVOUS = {"ORCHESTRATOR_RENDEZVOUS_HOST": "10.0.0.1", "ORCHESTRATOR_RENDEZVOUS_PORT": "41000"}


def test_pytorch_finds_its_rank_and_its_interface() -> None:
    environment = rank_environment.complete(LAYOUT, {"RANK": "2", **PORTS})
    expected = {
        "RANK": "2",
        "WORLD_SIZE": "3",
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "NODE_RANK": "1",
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "20100",
        "GLOO_SOCKET_IFNAME": "eth0",
        "NCCL_SOCKET_IFNAME": "=eth0",
        "TP_SOCKET_IFNAME": "eth0",
        "OMP_NUM_THREADS": "3",
    }
    assert {name: environment[name] for name in expected} == expected


def test_horovod_finds_its_rank_and_the_rendezvous() -> None:
    environment = rank_environment.complete(LAYOUT, {"RANK": "1", **PORTS, **RENDEZVOUS})
    expected = {
        "HOROVOD_HOSTNAME": "10.0.0.1",
        "HOROVOD_RANK": "1",
        "HOROVOD_SIZE": "3",
        "HOROVOD_LOCAL_RANK": "1",
        "HOROVOD_LOCAL_SIZE": "2",
        "HOROVOD_CROSS_RANK": "0",
        "HOROVOD_CROSS_SIZE": "1",
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": "10.0.0.1",
        "HOROVOD_GLOO_RENDEZVOUS_PORT": "41000",
        "HOROVOD_GLOO_IFACE": "eth0",
        "HOROVOD_GLOO_TIMEOUT_SECONDS": "132",
    }
    assert {name: environment[name] for name in expected} == expected


def test_ranks_of_mpi_reduce_over_mpi() -> None:
    environment = rank_environment.complete(LAYOUT, {"OMPI_COMM_WORLD_RANK": "2", **PORTS})
    assert (environment["RANK"], environment["HOROVOD_CONTROLLER"]) == ("2", "mpi")
    assert "HOROVOD_GLOO_RENDEZVOUS_ADDR" not in environment


@pytest.mark.parametrize("rank", range(3))
def test_all_tasks_of_tf_distribute_are_workers(rank: int) -> None:
    tf_config = json.loads(rank_environment.complete(LAYOUT, {"RANK": str(rank), **PORTS})["TF_CONFIG"])
    assert tf_config == {
        "cluster": {"worker": ["10.0.0.1:20101", "10.0.0.1:20102", "10.0.0.2:20103"]},
        "task": {"type": "worker", "index": rank},
    }


@pytest.mark.parametrize(
    ("rank", "task"), [(0, ("chief", 0)), (1, ("worker", 0)), (2, ("worker", 1)), (3, ("ps", 0)), (4, ("ps", 1))]
)
def test_each_task_with_parameter_servers_knows_its_role(rank: int, task: tuple[str, int]) -> None:
    hosts = ["a", "a", "b", "b", "a"]
    layout = Layout({"a": 1, "b": 1}, hosts, "lo", 1, math.inf, {}, ["chief", *["worker"] * 2, *["ps"] * 2])
    tf_config = json.loads(rank_environment.complete(layout, {"RANK": str(rank), **PORTS})["TF_CONFIG"])
    assert tf_config["cluster"] == {
        "chief": ["a:20101"],
        "worker": ["a:20102", "b:20103"],
        "ps": ["b:20104", "a:20105"],
    }
    assert (tf_config["task"]["type"], tf_config["task"]["index"]) == task


def test_variables_of_the_launcher_are_kept() -> None:
    torchruns = {"RANK": "0", "MASTER_ADDR": "node-7", "MASTER_PORT": "41234", "OMP_NUM_THREADS": "8"}
    environment = rank_environment.complete(LAYOUT, {**torchruns, **PORTS})
    assert {name: environment[name] for name in torchruns} == torchruns


def gpus_of_ranks(layout: Layout, **environment: str) -> list[str | None]:
    """Return the GPUs that each rank may see; None for all."""
    ranks = range(len(layout.ranks))
    environments = (rank_environment.complete(layout, {"RANK": str(rank), **PORTS, **environment}) for rank in ranks)
    return [environment.get("CUDA_VISIBLE_DEVICES") for environment in environments]


def test_workers_of_a_host_divide_its_gpus() -> None:
    assert gpus_of_ranks(LAYOUT._replace(gpus={"10.0.0.1": 2, "10.0.0.2": 4})) == ["0", "1", "0"]
    assert gpus_of_ranks(LAYOUT._replace(gpus={"10.0.0.1": 1, "10.0.0.2": 1})) == ["0", "0", "0"]
    assert gpus_of_ranks(LAYOUT) == [None, None, None]
    assert gpus_of_ranks(LAYOUT._replace(gpus={"10.0.0.1": 2, "10.0.0.2": 2}), CUDA_VISIBLE_DEVICES="1") == [
        "1",
        "1",
        "1",
    ]


def test_only_worker_of_each_host_sees_all_gpus() -> None:
    layout = Layout({"a": 1, "b": 1}, ["a", "b"], "lo", 1, math.inf, {}, (), {"a": 4, "b": 4})
    assert gpus_of_ranks(layout) == [None, None]


def test_chief_and_parameter_servers_take_no_gpu() -> None:
    roles = ["chief", *["worker"] * 4, "ps", "ps"]
    hosts = ["a", "a", "a", "b", "b", "b", "a"]
    layout = Layout({"a": 2, "b": 2}, hosts, "lo", 1, math.inf, {}, roles, {"a": 2, "b": 2})
    assert gpus_of_ranks(layout) == ["-1", "0", "1", "0", "1", "-1", "-1"]
    assert gpus_of_ranks(layout._replace(gpus=None)) == [None] * 7
    environments = [rank_environment.complete(layout, {"RANK": str(rank), **PORTS}) for rank in range(7)]
    assert [environment["LOCAL_RANK"] for environment in environments] == ["2", "0", "1", "0", "1", "2", "3"]


def test_interface_of_horovodrun_is_no_prefix_for_nccl() -> None:
    for value, expected in (("eth0", "=eth0"), ("ib0", "ib0")):
        environment = rank_environment.complete(LAYOUT, {"HOROVOD_RANK": "1", "NCCL_SOCKET_IFNAME": value, **PORTS})
        assert environment["NCCL_SOCKET_IFNAME"] == expected
