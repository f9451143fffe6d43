"""The worker side with PyTorch: tests/trainer_pytorch, inside the node image."""

import pytest

from tests import worker_side
from tests.worker_side import Passes, passes

__all__ = ["passes"]
FILES = worker_side.files("trainer_pytorch")


@pytest.mark.parametrize("file", FILES)
def test_the_image_with_pytorch_passes_its_tests(passes: Passes, file: str) -> None:
    passes([file])
