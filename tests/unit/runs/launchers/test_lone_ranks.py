"""Notes if ranks of a script would train each on their own."""

from pathlib import Path

import pytest

from orchestrator.runs import launchers, script
from orchestrator.runs.launchers import lone_ranks
from tests import builders


@pytest.mark.parametrize(
    ("text", "launcher", "nodes", "note"),
    [
        ("import lightning", "torchrun", 2, "Lightning does not learn"),
        ("import lightning, torch.distributed", "torchrun", 2, "Lightning does not learn"),
        ("import pytorch_lightning as pl", "torchrun", 1, ""),
        ("import lightning\nTrainer(num_nodes=2)", "torchrun", 2, ""),
        ("import torch", "plain", 2, "each of the 2 ranks runs the whole script on its own"),
        ("import keras", "plain", 2, "each of the 2 ranks runs the whole script on its own"),
        ("import torch", "plain", 1, ""),
        ("import jax\njax.distributed.initialize()", "plain", 2, ""),
        ("import jax", "plain", 2, "each of the 2 ranks"),
        ("import torch.distributed", "torchrun", 2, ""),
        ("import json", "plain", 2, ""),
    ],
)
def test_note_if_each_rank_would_train_on_its_own(
    tmp_path: Path, text: str, launcher: str, nodes: int, note: str
) -> None:
    (tmp_path / "train.py").write_text(text)
    cluster, source = builders.cluster(nodes=nodes), script.gather(["python", str(tmp_path / "train.py")])
    run = builders.run(np=nodes, launcher=launcher)
    found = list(lone_ranks.notes(source, run, launchers.layout(cluster, run)))
    assert [text[: len(note)] for text in found] == [note] * bool(note)
