"""The program that measures what bfloat16 gains on this node: begun while TensorFlow is still being imported here.

It imports TensorFlow too, which takes one core 2 s. What it says is kept in a file, so that it runs once per node.
Standard library alone.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from orchestrator import __version__
from orchestrator.trainer.hardware import cpu

SECONDS = 120  # for TensorFlow to be imported and two layers to be run
GPU = Path("/dev/nvidiactl")  # there, nobody asks for what a CPU gains
LOCAL_RANK = ("HOROVOD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK")
_begun: list["subprocess.Popen[str]"] = []


def kept(threads: int) -> Path:
    """Where the node's first rank writes down what was measured."""
    return Path(tempfile.gettempdir()) / f"orchestrator-arithmetic-{__version__}-{threads}.json"


def worthwhile() -> bool:
    """Whether the CPU has instructions for bfloat16, as AMX_BF16, AVX512_BF16, AVX-NE-CONVERT or Arm's BF16; or may."""
    known = cpu.instructions()
    return not known or any("bf16" in word or word == "avx_ne_convert" for word in known)


def begin(run_directory: Path) -> None:
    """Begin to measure, if this is the rank that will want it, and the run one that will ask."""
    try:
        config = json.loads((run_directory / "config.json").read_text())
        asks, threads = config["precision"] != "float32" and not config["resume"], config["threads"]
    except (OSError, ValueError, LookupError, TypeError):
        return  # what is wrong with it is said when it is read as a whole
    first = next((os.environ[name] for name in LOCAL_RANK if name in os.environ), "0") == "0"
    if asks and first and worthwhile() and not GPU.exists() and not kept(threads).exists():
        _begun.append(_start(threads, {}))


def said(threads: int, limits: Mapping[str, str]) -> "str | None":
    """The last word of the program in an environment with these ``limits``; None where it did not end well.

    Raises TimeoutExpired where it does not end in time.
    """
    with _begun.pop() if _begun and not limits else _start(threads, limits) as running:
        try:
            output, _ = running.communicate(timeout=SECONDS)
        finally:
            running.kill()
    return output.split()[-1] if running.returncode == 0 else None


def _start(threads: int, limits: Mapping[str, str]) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "orchestrator.trainer.models.gain", str(threads)]
    environment = {**os.environ, **limits}
    return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
