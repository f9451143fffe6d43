"""Dropout on two ranks: different masks, equal weights."""

import re
import sys
from pathlib import Path
from typing import Any

from tests import samples
from tests.trainer import launcher

ALEXNET: dict[str, Any] = {
    "model": "alexnet",
    "dataset": "synthetic",
    "image_size": 63,
    "synthetic_images": 8,
    "batch_size": 2,
    "epochs": 1,
    "learning_rate": 0.01,
}
STATES = """
import sys
from pathlib import Path
import horovod.tensorflow as hvd
from orchestrator.schema import TrainConfig
from orchestrator.trainer import rank_setup
hvd.init()
config = Path(sys.argv[1])
trainer = rank_setup.build(TrainConfig.model_validate_json(config.read_text()), config.parent)
rank_setup.share_weights(trainer)
print("rank", hvd.rank(), [v.numpy().tolist() for v in trainer.model.variables if "int" in v.dtype])
"""
STATE = r"rank (\d) \[\[(\d+), 0\], \[(\d+), 0\]\]"


def test_ranks_start_with_different_dropout_seeds(tmp_path: Path) -> None:
    samples.train_config(**ALEXNET).write(tmp_path / "config.json")
    output = launcher.launch(tmp_path, [sys.executable, "-c", STATES, str(tmp_path / "config.json")])
    assert output.returncode == 0, output.stdout
    seeds = {int(rank): (int(a), int(b)) for rank, a, b in re.findall(STATE, output.stdout)}
    assert seeds[1] == (seeds[0][0] + 1, seeds[0][1] + 1)


def test_ranks_with_different_masks_keep_equal_weights(tmp_path: Path) -> None:
    """The trainer writes a digest of the weights only if both ranks have the same."""
    output = launcher.train(tmp_path, ranks=2, **ALEXNET)
    assert output.returncode == 0, output.stdout
    assert len(launcher.results(tmp_path).epochs) == 1
