"""What a deploy refuses, or does not, before it touches anything."""

from orchestrator import lifecycle, state
from tests import builders


def test_a_cluster_whose_head_was_never_reached_has_no_run_that_could_be_in_the_way() -> None:
    """As a deploy leaves it that is killed between its apply and the first connection."""
    place = builders.deployed("demo", nodes=3)
    record = state.read(place)
    assert record is not None
    lifecycle._spare_runs(place, record.model_copy(update={"host_keys": {}}), {"nodes": 1})


def test_a_deploy_that_changes_nothing_asks_for_no_run() -> None:
    """No node is asked: none of these is there."""
    place = builders.deployed("demo", nodes=3)
    record = state.read(place)
    assert record is not None
    lifecycle._spare_runs(place, record, record.variables)
