"""What a deploy fetches, or refuses to lose, before the head goes."""

from typing import Any

import pytest

from orchestrator import cluster as clusters
from orchestrator import saving, state
from orchestrator.errors import StateError
from orchestrator.state import Home
from tests import builders

APPLIED = {"nodes": 2, "ssh_public_key": "key", "gcp": {"disk_size": 50, "worker": {"machine_type": "n1"}}}


def applied(provider: str = "gcp", storage: str = "nfs") -> Home:
    """A cluster with a run that was not fetched, and a head that does not answer."""
    place, output = builders.deployed("demo"), builders.output()
    for number, node in enumerate(output["nodes"].values()):
        node["private_address"] = f"127.0.99.{number}"  # no node is there
    made = clusters.read({**output, "storage": storage})
    record = builders.recorded(place)
    changes = {"cluster": made, "applied": APPLIED, "config": {**record.config, "provider": provider}}
    state.write(place, record.model_copy(update=changes))
    state.replace(place.known_hosts, "")
    state.replace(place.runs / "a" / "run.json", builders.run(id="a").model_dump_json())
    return place


def changed(**gcp: Any) -> dict[str, Any]:
    return {**APPLIED, "gcp": {**APPLIED["gcp"], **gcp}}  # type: ignore[dict-item]


def test_a_head_that_may_be_made_anew_is_refused_while_it_has_the_only_copy_of_a_run() -> None:
    place = applied()
    with pytest.raises(StateError, match="runs could not be saved: the head does not answer") as caught:
        saving.before_new_head(place, builders.recorded(place), changed(disk_size=100))
    assert caught.value.hint == (
        "`orchestrator deploy --cluster demo` with the settings of before heals the head; "
        "`orchestrator teardown --cluster demo` gives these runs up"
    )


def test_workers_come_and_go_without_a_look_at_runs() -> None:
    place = applied()
    saving.before_new_head(place, builders.recorded(place), {**changed(worker={"machine_type": "n2"}), "nodes": 8})


def test_where_no_run_is_left_to_fetch_nothing_is_in_the_way() -> None:
    place = applied()
    (place.runs / "a" / "run.json").unlink()
    saving.before_new_head(place, builders.recorded(place), changed(spot=True))


@pytest.mark.parametrize(("provider", "storage"), [("hosts", "nfs"), ("local", "mounted")])
def test_a_shared_storage_that_outlives_the_head_asks_for_nothing(provider: str, storage: str) -> None:
    place = applied(provider, storage)
    saving.before_new_head(place, builders.recorded(place), {"nodes": 2})
