"""The worker side where it runs: what takes minutes of it, inside the node image."""

import pytest

from tests import worker_side
from tests.contract.conftest import in_image
from tests.worker_side import Passes, passes

__all__ = ["in_image", "passes"]


@pytest.mark.parametrize("file", worker_side.files("trainer/long"))
def test_the_worker_side_passes_its_long_tests_where_it_runs(passes: Passes, file: str) -> None:
    passes([file])
