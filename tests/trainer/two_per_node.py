"""Ranks of one machine that act as if each two of them were on a node of their own."""

import horovod.tensorflow as hvd

from orchestrator.trainer.comm import exchange


def pretend() -> None:
    """Replace the neighbours of this rank: ranks 0 and 1 share a node, ranks 2 and 3 another, and so on."""
    first, same = hvd.rank() // 2 * 2, range(hvd.rank() % 2, hvd.size(), 2)
    neighbours = exchange.Neighbours([first, first + 1], list(same))
    exchange.find_neighbours = lambda: neighbours  # type: ignore[assignment]
