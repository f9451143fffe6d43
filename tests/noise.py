"""Class folders of small JPEGs of noise."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.image import imsave


def folders(directory: Path, splits: Mapping[str, int], classes: int) -> Path:
    """Write the images of each split, distributed over the classes in turn, and return the directory."""
    random = np.random.default_rng(1)
    for split, count in splits.items():
        for number in range(count):
            path = directory / split / f"n{number % classes:08}" / f"{number}.JPEG"
            path.parent.mkdir(parents=True, exist_ok=True)
            imsave(path, random.integers(0, 256, (64, 80, 3), np.uint8), format="jpeg")
    return directory
