"""Images of digits: MNIST, or drawn ones."""

import gzip
from collections.abc import Iterator
from pathlib import Path

import torch
from common import BATCH, RANKS
from torch import Tensor, nn

DATA = Path("/shared/data")  # where `orchestrator train --data` and `orchestrator cp` put data sets
HELD_OUT = 1000  # images for the test
SIDE, LEFT, RIGHT, TOP, MIDDLE, BOTTOM = 28, 9, 18, 5, 13, 21  # of the drawn digits, pixels
LINES = {"a": (TOP, LEFT, "-"), "g": (MIDDLE, LEFT, "-"), "d": (BOTTOM, LEFT, "-"), "f": (TOP, LEFT, "|"),
         "b": (TOP, RIGHT, "|"), "e": (MIDDLE, LEFT, "|"), "c": (MIDDLE, RIGHT, "|")}  # fmt: skip
DRAWN = ("abcdef", "bc", "abged", "abgcd", "fgbc", "afgcd", "afgedc", "abc", "abcdefg", "abcdfg")


class Digits:
    """MNIST if the cluster has it, else drawn digits; the last images are held out for the test."""

    def __init__(self) -> None:
        files = sorted(DATA.glob("mnist*/*-images-idx3-ubyte*"))
        self.name = str(files[-1]) if files else "digits drawn here"
        images, labels = _mnist(files[-1]) if files else _draw(10000)
        self.images, self.labels = images[:-HELD_OUT], labels[:-HELD_OUT]
        self.test_images, self.test_labels = images[-HELD_OUT:], labels[-HELD_OUT:]
        self.steps = len(self.images) // BATCH  # of an epoch

    def batches(self, epochs: int, shares: int = RANKS) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the images and labels of every step, of all ranks together, shuffled alike on every rank.

        A batch can be divided into ``shares`` of equal size: else the mean of their means is not the mean of the batch.
        """
        for epoch in range(epochs):
            order = torch.randperm(len(self.images), generator=torch.Generator().manual_seed(epoch))
            for indices in order[: self.steps * BATCH].split(BATCH):
                used = indices[: BATCH // shares * shares]
                yield self.images[used], self.labels[used]

    def show_test(self, model: nn.Module) -> None:
        """Print loss and accuracy on the images held out."""
        with torch.no_grad():
            scores = model(self.test_images)
        right = (scores.argmax(1) == self.test_labels).float().mean().item()
        loss = nn.functional.cross_entropy(scores, self.test_labels).item()
        print(f"{self.name}: test loss {loss:.4f}, accuracy {right:.1%}", flush=True)


def _mnist(images: Path) -> tuple[Tensor, Tensor]:
    labels = images.with_name(images.name.replace("images-idx3", "labels-idx1"))
    return _idx(images).view(-1, SIDE * SIDE) / 255.0, _idx(labels).long()


def _idx(path: Path) -> Tensor:
    """Read a file of MNIST: its fourth byte is the number of dimensions, of four bytes each, then come the values."""
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return torch.frombuffer(bytearray(content[4 + 4 * content[3] :]), dtype=torch.uint8)


def _draw(count: int) -> tuple[Tensor, Tensor]:
    """Draw digits of seven lines, as pocket calculators have them, moved at random, with noise."""
    shapes = torch.zeros(10, SIDE, SIDE)
    for digit, lines in enumerate(DRAWN):
        for row, column, direction in (LINES[line] for line in lines):
            height, width = (2, RIGHT - LEFT + 2) if direction == "-" else (MIDDLE - TOP + 2, 2)
            shapes[digit, row : row + height, column : column + width] = 1.0
    random = torch.Generator().manual_seed(2)
    labels = torch.randint(10, (count,), generator=random)
    moves = torch.randint(-2, 3, (count, 2), generator=random).tolist()
    moved = [shapes[label].roll(tuple(move), (0, 1)) for label, move in zip(labels.tolist(), moves, strict=True)]
    return (torch.stack(moved) + 0.3 * torch.randn(count, SIDE, SIDE, generator=random)).flatten(1), labels
