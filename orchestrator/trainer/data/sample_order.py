"""Order of samples: a permutation per epoch that all ranks share, and each rank's part of it."""

import numpy as np

MIXING_SEED = 0


def epoch_order(size: int, seed: int, epoch: int) -> np.ndarray:
    """Return the permutation of all samples that all ranks share in an epoch.

    Args:
        size: Number of samples.
        seed: Seed of the run.
        epoch: Number of the epoch.

    Returns:
        Permutation of range(size), int64.
    """
    return np.random.default_rng([seed, epoch]).permutation(size)


def mixed_order(size: int) -> np.ndarray:
    """Return the permutation that mixes samples stored class by class, the same in every run: int64 (size)."""
    return np.random.default_rng(MIXING_SEED).permutation(size)


def shard(order: np.ndarray, world: int, rank: int) -> np.ndarray:
    """Return every world-th sample from ``rank`` on.

    Args:
        order: Numbers of all samples.
        world: Number of ranks.
        rank: Number of the rank.

    Returns:
        Numbers of samples. Shards are disjoint, cover all samples, and differ in size by one at most.
    """
    return order[rank::world]
