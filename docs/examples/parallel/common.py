"""Parts that the programs of this directory share: network, checks, and a meter of speed, traffic and idleness.

They train one network on the same images in the same order, so only the method differs between their outputs. All of
them compute on CPUs, also on nodes with GPUs: that keeps them short, and their traffic on the network between nodes.
"""

import argparse
import itertools
import os
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor, nn

BATCH = 1024  # images of a step, of all ranks together; a few less if they are not divisible by the ranks
RANKS = int(os.environ["WORLD_SIZE"])
LEARNING_RATE, MOMENTUM = 0.05, 0.9


def options(*more: tuple[str, int]) -> argparse.Namespace:
    """Read the options of a program: ``--epochs``, and ``more`` numbers by name with their defaults."""
    parser = argparse.ArgumentParser()
    for name, default in (("epochs", 10), *more):
        parser.add_argument(f"--{name}", type=int, default=default)
    return parser.parse_args()


def network() -> nn.Sequential:
    """Make five dense layers of 1,195,018 weights, with the same initial weights on every rank."""
    torch.manual_seed(1)
    widths = (784, 512, 512, 512, 512, 10)
    layers = [layer for pair in itertools.pairwise(widths) for layer in (nn.Linear(*pair), nn.ReLU())]
    for dense in layers[::2]:
        nn.init.kaiming_normal_(dense.weight)  # for ReLU: else five layers hardly learn at first
    return nn.Sequential(*layers[:-1])


def optimizer(parameters: Iterator[nn.Parameter]) -> torch.optim.SGD:
    """Make the optimizer of all programs."""
    return torch.optim.SGD(parameters, lr=LEARNING_RATE, momentum=MOMENTUM)


def flat(tensors: list[Tensor]) -> Tensor:
    """Join tensors into one vector, as messages are."""
    return torch.cat([tensor.detach().flatten() for tensor in tensors])


def whole_gradients(model: nn.Module, images: Tensor, labels: Tensor) -> list[Tensor]:
    """Compute the gradients of one process that has the whole network and the whole batch."""
    return list(torch.autograd.grad(nn.functional.cross_entropy(model(images), labels), list(model.parameters())))


def require_equal(name: str, actual: Tensor, expected: Tensor, rounding: float = 1e-5) -> None:
    """Print how far two vectors differ; end the program if that is more than rounding explains."""
    difference = ((actual - expected).abs().max() / expected.abs().max()).item()
    print(f"check: {name}: largest difference {difference:.1e} of the largest value", flush=True)
    if not difference < rounding:
        raise SystemExit(f"check failed: {name}")


class Meter:
    """Speed, traffic and idleness of this rank, from the making of the meter to its report."""

    def __init__(self) -> None:
        self.sent, self.cpu, self.began = _sent(), time.process_time(), time.perf_counter()

    def report(self, steps: int) -> None:
        """Print images/s of all ranks, bytes that this node sent, and the share of time without work for this rank."""
        seconds = time.perf_counter() - self.began
        idle = max(0.0, 1.0 - (time.process_time() - self.cpu) / seconds / torch.get_num_threads())
        megabytes = (_sent() - self.sent) / steps / 1e6
        rank = os.environ["RANK"]
        print(f"rank {rank}: {steps * BATCH / seconds:.0f} images/s, {megabytes:.2f} MB sent per step, idle {idle:.0%}",
              flush=True)  # fmt: skip


def _sent() -> int:
    """Return the bytes that the kernel counts on the interface between the nodes: TCP's headers and answers, too."""
    return int(Path(f"/sys/class/net/{os.environ['GLOO_SOCKET_IFNAME']}/statistics/tx_bytes").read_text())
