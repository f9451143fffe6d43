"""Text of the receipt of a teardown."""

from orchestrator.lifecycle.receipt import Receipt
from orchestrator.providers import Resource

HEAD, NETWORK = Resource("container", "demo-head", "1"), Resource("network", "demo", "2")


def test_receipt_names_each_resource_and_their_numbers() -> None:
    assert str(Receipt("demo", [HEAD, NETWORK], [NETWORK])).splitlines() == [
        "container demo-head: gone",
        "network demo: LEFT",
        "cluster demo: 2 made, 1 gone, 1 left",
    ]


def test_receipt_without_resources_has_their_numbers_alone() -> None:
    assert str(Receipt("demo", [], [])) == "cluster demo: 0 made, 0 gone, 0 left"


def test_resource_left_in_another_state_is_not_gone() -> None:
    assert Receipt("demo", [HEAD], [Resource("container", "demo-head", "1", usable=False)]).gone == []
