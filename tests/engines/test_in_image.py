"""Run tests/trainer_engines inside the image that has both frameworks."""

import pytest

from tests import tests_in_image
from tests.contract.conftest import in_image
from tests.tests_in_image import Passes, passes

__all__ = ["in_image", "passes"]


@pytest.mark.parametrize("file", tests_in_image.files("trainer_engines"))
def test_trainer_engines_tests_pass_in_the_image(passes: Passes, file: str) -> None:
    passes([file])
