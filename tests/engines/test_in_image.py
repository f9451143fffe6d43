"""Networks of the engines, inside the image that has both frameworks: tests/trainer_engines."""

import pytest

from tests import worker_side
from tests.contract.conftest import in_image
from tests.worker_side import Passes, passes

__all__ = ["in_image", "passes"]


@pytest.mark.parametrize("file", worker_side.files("trainer_engines"))
def test_the_image_with_both_frameworks_passes_its_tests(passes: Passes, file: str) -> None:
    passes([file])
