"""Description of a study's machines: asked, and compared on a resume."""

import platform
import subprocess
from pathlib import Path
from typing import Any

import pytest

from orchestrator.studies import machine_description
from tests import builders

ANSWER = "6.1\n8\nmodel name\t: Fast 9000\n16384000\navx2 avx512f\n\n"


def test_answer_of_this_machine_has_every_fact() -> None:
    answer = subprocess.run(["sh", "-c", machine_description.ASK], check=True, capture_output=True, text=True).stdout
    described = machine_description.describe(answer, builders.cluster())
    assert list(described) == ["nodes", "each node", "processor", "instructions", "GPU", "memory", "kernel"]
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
    flags = next(line for line in lines if line.startswith(("flags", "Features"))).split()
    assert described["processor"].startswith(f"{model}, ")
    assert set(described["instructions"].split()) >= set(flags) & set(machine_description.SETS.split("|"))
    assert described["kernel"] == platform.release()


def test_study_of_nodes_leaves_out_what_changes_with_their_number() -> None:
    """Local nodes share the CPUs of one machine."""
    few, many = builders.cluster(2, cpus=1.0), builders.cluster(4, cpus=0.5)
    described = [machine_description.describe(ANSWER, each, resized=True) for each in (few, many)]
    assert described[0] == described[1]
    assert described[0]["each node"] == "0 GPUs and 1 slots"
    assert machine_description.describe(ANSWER, few)["each node"] == "1 CPUs, 0 GPUs and 1 slots"


def test_first_node_that_runs_ranks_is_described() -> None:
    cluster = builders.cluster(2, gpus=1)
    head = cluster.nodes[cluster.head].model_copy(update={"gpus": 0, "slots": 4})
    cluster = cluster.model_copy(update={"nodes": {**cluster.nodes, cluster.head: head}})
    assert machine_description.describe(ANSWER, cluster, resized=True)["each node"] == "1 GPUs and 1 slots"


@pytest.mark.parametrize(
    ("old", "new", "differ"),
    [
        ("", "", []),
        ("6.1", "6.12", []),  # of an upgrade
        ("16384000", "32768000", []),
        ("Fast 9000", "Fast 9001", ["processor: Fast 9000, 8 cores, now Fast 9001, 8 cores"]),
        ("8\n", "16\n", ["processor: Fast 9000, 8 cores, now Fast 9000, 16 cores"]),
        ("avx2 avx512f", "avx2", ["instructions: avx2 avx512f, now avx2"]),
        (" avx512f\n\n", " avx512f\nNVIDIA L4\n", ["GPU: none, now NVIDIA L4"]),
    ],
)
def test_only_what_decides_the_speed_differs(old: str, new: str, differ: list[str]) -> None:
    before, now = (
        machine_description.describe(text, builders.cluster()) for text in (ANSWER, ANSWER.replace(old, new, 1))
    )
    assert machine_description.differences(before, now) == differ


@pytest.mark.parametrize("changes", [{"slots": 2}, {"cpus": 4.0}, {"gpus": 1}])
def test_other_cpus_gpus_or_slots_of_a_node_differ(changes: dict[str, Any]) -> None:
    before, now = (machine_description.describe(ANSWER, builders.cluster(**each)) for each in ({}, changes))
    [difference] = machine_description.differences(before, now)
    assert difference.startswith("each node: 2 CPUs, 0 GPUs and 1 slots, now ")


def test_older_descriptions_are_compared_by_their_own_fields() -> None:
    before = {"nodes": "2, each with 2 CPUs, 0 GPUs and 1 slots", "processor": "Fast 9000, 8 cores"}
    now = machine_description.describe(ANSWER, builders.cluster(3))
    assert machine_description.differences(before, now) == []
