"""What a deploy refuses, or does not, before it touches anything."""

from orchestrator import lifecycle, state
from orchestrator.config import Config
from tests import builders


def test_a_cluster_whose_head_was_never_reached_has_no_run_that_could_be_in_the_way() -> None:
    """As a deploy leaves it that is killed between its apply and the first connection."""
    place = builders.deployed("demo", nodes=3)
    record = state.read(place)
    assert record is not None
    state.write(place, record.model_copy(update={"host_keys": {}}))
    lifecycle._spare_runs(place, Config(name="demo", nodes=1))
