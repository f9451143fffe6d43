"""Choice of 16 or 32 bits for gradients."""

import pytest

from orchestrator.trainer.autotune import choose_compression


@pytest.mark.parametrize(
    ("size", "measured"),
    [(4, 1 << 16), ((1 << 20) - 4, 1 << 20), (1 << 20, 1 << 20), ((1 << 20) + 4, 1 << 21), (102_000_000, 32 << 20)],
)
def test_gradients_are_measured_in_a_group_of_about_their_size(size: int, measured: int) -> None:
    assert choose_compression.measured_size(size) == measured
