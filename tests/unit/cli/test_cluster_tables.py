"""Nodes, changes and costs of a cluster, as people see them."""

import pytest

from orchestrator.cli import cluster_tables
from orchestrator.lifecycle.prices import Item
from tests import builders


def test_nodes_without_ranks_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = builders.cluster()
    cluster_tables.note_nodes_without_ranks(cluster)
    assert capsys.readouterr().err == ""
    with_gpu = cluster.nodes["demo-worker-0"].model_copy(update={"gpus": 1})
    mixed = cluster.model_copy(update={"nodes": {**cluster.nodes, "demo-worker-0": with_gpu}})
    cluster_tables.note_nodes_without_ranks(mixed)
    assert capsys.readouterr().err.startswith("demo-head: no ranks")


@pytest.mark.parametrize(
    ("each", "shown"), [(0.0014, "0.0014"), (0.045, "0.045"), (0.1, "0.10"), (12.345, "12.35"), (0.0, "0.00")]
)
def test_low_prices_have_two_digits(each: float, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    cluster_tables.bill([Item("GB of disk", 100, each)], "EUR")
    row = capsys.readouterr().out.splitlines()[2]
    assert row.split()[4:6] == [shown, "EUR"]
