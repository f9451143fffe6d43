"""Messages and steps that `check` measures, with PyTorch."""

from collections.abc import Callable
from typing import Any

import horovod.torch as hvd
import torch

from orchestrator.trainer import gpu_of_rank
from orchestrator.trainer.check import message_and_step_sizes

ones = torch.ones


def start() -> None:
    """Initialize Horovod, and choose the rank's GPU if its node has GPUs."""
    hvd.init()
    if (own := gpu_of_rank.index(hvd.local_rank(), torch.cuda.device_count(), "PyTorch")) is not None:
        torch.cuda.set_device(own)
        torch.set_default_device("cuda")


def allreduce(value: float, op: Any, name: str) -> float:
    """Reduce a number of each rank by ``op``."""
    return float(hvd.allreduce(torch.tensor(value, device="cpu"), op=op, name=name))


def step(side: int) -> Callable[[], object]:
    """Return a function that computes a step with matrices of ``side``, and returns once its gradients have arrived."""
    matrix, gradient = torch.full([side, side], 1.0 / side), torch.zeros(message_and_step_sizes.group_bytes(side) // 4)
    return lambda: _compute_and_send(matrix, gradient).item()


def _compute_and_send(matrix: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """Compute a chain of matrix products, and send a group of gradients after each while the next is computed.

    The square of a matrix whose entries are all 1/side is the matrix itself.
    """
    sent = []
    for number in range(message_and_step_sizes.GROUPS):
        matrix = matrix @ matrix
        sent.append(hvd.allreduce_async(gradient, op=hvd.Sum, name=f"step.{number}"))
    return matrix[0, 0] + sum(hvd.synchronize(handle)[0] for handle in sent)
