"""Order of samples: a permutation per epoch, of which every rank takes its part."""

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
