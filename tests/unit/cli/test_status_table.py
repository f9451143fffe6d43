"""The nodes of a cluster, as people see them."""

import pytest

from orchestrator.cli import status_table
from tests import builders


def test_nodes_without_ranks_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = builders.cluster()
    status_table.note_nodes_without_ranks(cluster)
    assert capsys.readouterr().err == ""
    with_gpu = cluster.nodes["demo-worker-0"].model_copy(update={"gpus": 1})
    mixed = cluster.model_copy(update={"nodes": {**cluster.nodes, "demo-worker-0": with_gpu}})
    status_table.note_nodes_without_ranks(mixed)
    assert capsys.readouterr().err.startswith("demo-head: no ranks")
