"""Description of the machine that a study runs on, for its report: machine.json."""

import json
from collections.abc import Mapping
from pathlib import Path

from orchestrator import ssh
from orchestrator.cluster import Cluster
from orchestrator.errors import NodesFailed, command
from orchestrator.schema import bounded_files
from orchestrator.schema.atomic_write import replaced
from orchestrator.state import StateDir

FILE = "machine.json"
# Facts that decide how fast a launch is. A node that is deployed again may have another kernel, and less free memory.
COMPARED = ("each node", "processor", "instructions", "GPU")
# Instruction sets that decide how fast a network trains, by the kernel's names.
SETS = "avx2|avx512f|avx512_vnni|avx512_bf16|amx_bf16|asimd|sve|bf16"
ASK = (
    "uname -r; nproc; grep -m1 'model name' /proc/cpuinfo; awk '/MemTotal/ {print $2}' /proc/meminfo; "
    f"echo $(grep -m1 -E '^(flags|Features)' /proc/cpuinfo | grep -woE '{SETS}' | sort -u); "
    "echo $(sed -n 's/^Model:[[:space:]]*//p' /proc/driver/nvidia/gpus/*/information 2> /dev/null | sort -u)"
)


def ask(state_dir: StateDir, cluster: Cluster, resized: bool) -> dict[str, str]:
    """Return the description of the first node that runs ranks, which the others are like.

    Args:
        state_dir: State directory of the cluster.
        cluster: The cluster.
        resized: Whether the number of nodes changes during the study.

    Returns:
        The parts of the description by name.

    Raises:
        NodesFailed: The node does not answer.
    """

    def answer(name: str) -> str:
        with ssh.connect(state_dir, cluster, name) as session:
            return session.must("read its hardware", ["sh", "-c", ASK])

    first = next(iter(cluster.rank_nodes))
    answers, reasons = ssh.on_every_node(cluster, answer, [first])
    if reasons:
        hint = f"{command('status', cluster.name)} shows every node, {command('deploy', cluster.name)} repairs them"
        raise NodesFailed("a node does not answer", reasons, hint)
    return describe(answers[first], cluster, resized)


def describe(answer: str, cluster: Cluster, resized: bool = False) -> dict[str, str]:
    """Return the parts of the description by name.

    Args:
        answer: The answer of a node to :data:`ASK`.
        cluster: The cluster.
        resized: Whether the number of nodes changes during the study, and with it the CPUs of a local node.

    Returns:
        The description.
    """
    kernel, cores, *processor, memory, instructions, gpu = answer.splitlines()
    node = next(iter(cluster.rank_nodes.values()))
    model = processor[0].partition(":")[2].strip() if processor else "unknown"
    return {
        **({} if resized else {"nodes": str(len(cluster.nodes))}),
        "each node": f"{'' if resized else f'{node.cpus:g} CPUs, '}{node.gpus} GPUs and {node.slots} slots",
        "processor": f"{model}, {cores} cores",
        "instructions": instructions or "none of those that were looked for",
        "GPU": gpu or "none",
        "memory": f"{int(memory) / 2**20:.1f} GiB",
        "kernel": kernel,
    }


def read(directory: Path) -> dict[str, str]:
    """Return the description in the directory of a study; empty if there is none that can be read."""
    try:
        content = bounded_files.read_json(directory / FILE)
    except (FileNotFoundError, bounded_files.Unreadable):
        return {}
    return {name: str(value) for name, value in content.items()} if isinstance(content, dict) else {}


def write(directory: Path, description: Mapping[str, str]) -> None:
    """Write a description into the directory of a study."""
    with replaced(directory / FILE, 0o644) as file:
        file.write(json.dumps(description, indent=2).encode() + b"\n")


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the facts in words that decide the speed and differ; facts that only one description has do not count."""
    shared = [name for name in COMPARED if name in before and name in now]
    return [f"{name}: {before[name]}, now {now[name]}" for name in shared if before[name] != now[name]]
