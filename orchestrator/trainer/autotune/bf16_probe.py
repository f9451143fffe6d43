"""Start of the bfloat16 benchmark on this node, in a process of its own while this one imports TensorFlow.

The benchmark imports TensorFlow too, which takes one core 2 s. Its result is kept in a file, so that it runs once per
node. Standard library only.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from orchestrator import __version__
from orchestrator.trainer import cpu

SECONDS = 120  # to import TensorFlow and run two layers
GPU = Path("/dev/nvidiactl")  # with a GPU, the CPU's speedup does not matter
LOCAL_RANK = ("HOROVOD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK")
_begun: list["subprocess.Popen[str]"] = []


def kept(threads: int) -> Path:
    """Return the file in which the node's first rank stores the result."""
    return Path(tempfile.gettempdir()) / f"orchestrator-arithmetic-{__version__}-{threads}.json"


def worthwhile() -> bool:
    """Check that the CPU has, or may have, bfloat16 instructions: AMX_BF16, AVX512_BF16, AVX-NE-CONVERT, Arm's BF16."""
    known = cpu.instructions()
    return not known or any("bf16" in word or word == "avx_ne_convert" for word in known)


def begin(run_directory: Path) -> None:
    """Start the benchmark if this is the node's first rank and the run needs the result."""
    try:
        config = json.loads((run_directory / "config.json").read_text())
        asks, threads = config["precision"] != "float32" and not config["resume"], config["threads"]
    except (OSError, ValueError, LookupError, TypeError):
        return  # reported later, when the whole file is validated
    first = next((os.environ[name] for name in LOCAL_RANK if name in os.environ), "0") == "0"
    if asks and first and worthwhile() and not GPU.exists() and not kept(threads).exists():
        _begun.append(_start(threads, {}))


def said(threads: int, limits: Mapping[str, str]) -> "str | None":
    """Return the last word that the benchmark prints in an environment with ``limits``; None if it fails.

    Raises:
        TimeoutExpired: The benchmark takes longer than SECONDS.
    """
    with _begun.pop() if _begun and not limits else _start(threads, limits) as running:
        try:
            output, _ = running.communicate(timeout=SECONDS)
        finally:
            running.kill()
    return output.split()[-1] if running.returncode == 0 else None


def _start(threads: int, limits: Mapping[str, str]) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "orchestrator.trainer.autotune.bf16_benchmark", str(threads)]
    environment = {**os.environ, **limits}
    return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
