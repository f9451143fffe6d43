"""Description of the machine that a study runs on, for its report: machine.json."""

import json
from pathlib import Path

from orchestrator.cluster import Cluster
from orchestrator.runs import control
from orchestrator.schema.atomic_write import replaced
from orchestrator.state import StateDir

FILE = "machine.json"
# Instruction sets that decide how fast a network trains, by the kernel's names.
SETS = "avx2|avx512f|avx512_vnni|avx512_bf16|amx_bf16|asimd|sve|bf16"
ASK = (
    "uname -r; nproc; grep -m1 'model name' /proc/cpuinfo; awk '/MemTotal/ {print $2}' /proc/meminfo; "
    f"echo $(grep -m1 -E '^(flags|Features)' /proc/cpuinfo | grep -woE '{SETS}' | sort -u)"
)


def write(directory: Path, state_dir: StateDir, cluster: Cluster) -> None:
    """Write a description of the head, which its workers are like, into the directory of a study.

    Raises:
        NodesFailed: The head does not answer.
    """
    with control.head_session(state_dir, cluster) as head:
        answer = head.must("read its hardware", ["sh", "-c", ASK])
    with replaced(directory / FILE, 0o644) as file:
        file.write(json.dumps(describe(answer, cluster), indent=2).encode() + b"\n")


def describe(answer: str, cluster: Cluster) -> dict[str, str]:
    """Return the parts of the description by name, from the answer of the head to :data:`ASK`."""
    kernel, cores, *processor, memory, instructions = answer.splitlines()
    node = cluster.nodes[cluster.head]
    model = processor[0].partition(":")[2].strip() if processor else "unknown"
    return {
        "nodes": f"{len(cluster.nodes)}, each with {node.cpus:g} CPUs, {node.gpus} GPUs and {node.slots} slots",
        "processor": f"{model}, {cores} cores",
        "instructions": instructions or "none of those that were looked for",
        "memory": f"{int(memory) / 2**20:.1f} GiB",
        "kernel": kernel,
    }
