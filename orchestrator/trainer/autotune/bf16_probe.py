"""Start of the bfloat16 benchmark on this node, in a process of its own while this one imports TensorFlow.

The benchmark imports TensorFlow too, which takes one core 2 s. Its result is stored, so that it runs once per node.
Standard library only.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from orchestrator.trainer import cpu_model, gpu_of_rank
from orchestrator.trainer.autotune import measurements

SECONDS = 120  # to import TensorFlow and run two layers
LOCAL_RANK = ("HOROVOD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK")
_started: list["subprocess.Popen[str]"] = []


def entry(threads: int) -> measurements.Entry:
    """Return the entry in which the node's first rank stores the result."""
    return measurements.Entry("bfloat16", threads=threads)


def may_have_bfloat16() -> bool:
    """Check that the CPU has, or may have, bfloat16 instructions: AMX_BF16, AVX512_BF16, AVX-NE-CONVERT, Arm's BF16."""
    flags = cpu_model.instructions()
    return not flags or any("bf16" in flag or flag == "avx_ne_convert" for flag in flags)


def start_in_background(run_directory: Path) -> None:
    """Start the benchmark if this is the node's first rank and the run needs the result."""
    try:
        config = json.loads((run_directory / "config.json").read_text())
        asks, threads = config["precision"] != "float32" and not config["resume"], config["threads"]
    except (OSError, ValueError, LookupError, TypeError):
        return  # reported later, when the whole file is validated
    first = next((os.environ[name] for name in LOCAL_RANK if name in os.environ), "0") == "0"
    if asks and first and may_have_bfloat16() and not gpu_of_rank.DEVICE.exists() and not entry(threads).read(dict):
        _started.append(_popen(threads, {}))


def run_benchmark(threads: int, limits: Mapping[str, str]) -> "str | None":
    """Return the last word that the benchmark prints in an environment with ``limits``; None if it fails.

    Raises:
        TimeoutExpired: The benchmark takes longer than SECONDS.
    """
    with _started.pop() if _started and not limits else _popen(threads, limits) as running:
        try:
            output, _ = running.communicate(timeout=SECONDS)
        finally:
            running.kill()
    return output.split()[-1] if running.returncode == 0 else None


def _popen(threads: int, limits: Mapping[str, str]) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "orchestrator.trainer.autotune.bf16_benchmark", str(threads)]
    environment = {**os.environ, **limits}
    return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
