"""Run tests/trainer, without its long tests, inside the node image."""

import pytest

from tests import tests_in_image
from tests.tests_in_image import Passes, passes

__all__ = ["passes"]
PARTS = 8  # two run at a time on two cores, and none is so long that the other core waits


@pytest.mark.parametrize("part", range(PARTS))
def test_trainer_tests_pass_in_the_image(passes: Passes, part: int) -> None:
    passes(tests_in_image.files("trainer")[part::PARTS])
