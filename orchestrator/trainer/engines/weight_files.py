"""Weights of a network by framework-neutral names, in files that every engine reads: ``initial.npz``, ``weights.npz``.

Names are KIND/NUMBER/VARIABLE, in the order in which the network's layers are created: ``convolution/0/kernel``. Arrays
have the shapes of Keras. The initial weights are those of ``train``, drawn from the seed; a program of its own draws
them, so that an engine's own framework begins untouched.
"""

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from orchestrator.launch_layout import VISIBLE_GPUS
from orchestrator.schema.atomic_write import replaced

INITIAL, FINAL = "initial.npz", "weights.npz"
LIMIT_SECONDS = 600.0  # for rank 0 to draw them, on a slow node
Weights = dict[str, np.ndarray]


def initial(run_directory: Path, rank: int) -> Weights:
    """Return the initial weights of a run: rank 0 lets them be drawn, other ranks wait for the file."""
    path = run_directory / INITIAL
    if rank == 0 and not path.exists():
        program = [sys.executable, "-m", "orchestrator.trainer.engines.initial_weights", str(run_directory)]
        # It would reserve memory of every GPU, which the ranks are about to use.
        subprocess.run(program, check=True, env={**os.environ, VISIBLE_GPUS: "-1"})
    deadline = time.monotonic() + LIMIT_SECONDS
    while not path.exists():
        if time.monotonic() > deadline:
            sys.exit(f"rank {rank}: rank 0 wrote no {path} within {LIMIT_SECONDS:.0f} s")
        time.sleep(0.05)
    with np.load(path) as content:
        return dict(content)


def write(path: Path, weights: Weights) -> None:
    """Replace a file of weights atomically."""
    with replaced(path, 0o644) as file:
        np.savez(file, **weights)


def digest(weights: Weights) -> str:
    """Return the SHA-256 of all weights."""
    content = hashlib.sha256()
    for name in sorted(weights):
        content.update(np.ascontiguousarray(weights[name], np.float32))
    return content.hexdigest()
