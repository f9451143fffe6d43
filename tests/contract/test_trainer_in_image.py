"""The worker side where it runs: tests/trainer without what takes minutes, inside the node image."""

import pytest

from tests import worker_side
from tests.worker_side import Passes, passes

__all__ = ["passes"]
PARTS = 8  # two at a time where there are two cores, and none so long that one of these waits for it


@pytest.mark.parametrize("part", range(PARTS))
def test_the_worker_side_passes_its_tests_where_it_runs(passes: Passes, part: int) -> None:
    passes(worker_side.files("trainer")[part::PARTS])
