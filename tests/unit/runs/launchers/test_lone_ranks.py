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
        ("import lightning\nTrainer(num_nodes=1)", "torchrun", 2, "Lightning does not learn"),
        ("import lightning\nparser.add_argument('--num_nodes', default=1)", "torchrun", 2, ""),
        ("import torch.multiprocessing as mp\nmp.spawn(train)", "torchrun", 2, "the script starts processes itself"),
        ("import torch.multiprocessing as mp\nmp.spawn(train)", "torchrun", 1, ""),
        (
            "from torch.multiprocessing import spawn\nspawn(f) if 'LOCAL_RANK' not in environ else f()",
            "torchrun",
            2,
            "",
        ),
        ("from detectron2.engine import launch\nlaunch(main, 2)", "plain", 2, "the script starts processes itself"),
        (
            "import torch.distributed\nadd_argument('--local_rank')",
            "torchrun",
            2,
            "the script has an option --local_rank",
        ),
        ("import deepspeed\nadd_argument('--local-rank')", "torchrun", 2, "the script has an option --local_rank"),
        ("import torch\nadd_argument('--local_rank', default=environ['LOCAL_RANK'])", "torchrun", 2, ""),
        ("import horovod.torch, torch\nadd_argument('--local_rank')", "horovod", 2, ""),
        ("from mmengine.runner import Runner", "torchrun", 2, "MMEngine joins the ranks only"),
        ("from mmengine.runner import Runner\nRunner(launcher='pytorch')", "torchrun", 2, ""),
        ("import tensorflow as tf\ntf.distribute.MirroredStrategy()", "tensorflow", 2, "MirroredStrategy uses the"),
        ("import tensorflow as tf\ntf.distribute.MirroredStrategy()", "tensorflow", 1, ""),
        ("import tensorflow as tf\ntf.distribute.MultiWorkerMirroredStrategy()", "tensorflow", 2, ""),
        ("from ultralytics import YOLO", "plain", 2, "each of the 2 ranks"),
        ("from ultralytics import YOLO\nYOLO().train(device=[0, 1])", "plain", 2, ""),
        ("import xgboost", "plain", 2, "each of the 2 ranks"),
        ("import keras\nkeras.distribution.initialize(a, n, i)", "plain", 2, ""),
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


def test_mmengine_that_gets_its_launcher_joins_the_ranks(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("from mmengine.runner import Runner")
    cluster, run = builders.cluster(nodes=2), builders.run(np=2, launcher="torchrun")
    for option in (["--launcher", "pytorch"], ["--launcher=pytorch"]):
        source = script.gather(["python", str(tmp_path / "train.py"), *option])
        assert not list(lone_ranks.notes(source, run, launchers.layout(cluster, run)))
