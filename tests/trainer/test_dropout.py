"""Dropout on two ranks: other units on each of them, the same again in the next run, and weights that stay equal."""

import re
import sys
from pathlib import Path
from typing import Any

from tests import samples
from tests.trainer import launcher

GOOGLENET: dict[str, Any] = {
    "model": "googlenet",
    "dataset": "synthetic",
    "image_size": 64,
    "synthetic_images": 16,
    "batch_size": 4,
    "epochs": 1,
    "learning_rate": 0.01,
}
STATES = """
import sys
from pathlib import Path
import horovod.tensorflow as hvd
from orchestrator.schema import TrainConfig
from orchestrator.trainer import setup
hvd.init()
trainer = setup.build(TrainConfig.model_validate_json(Path(sys.argv[1]).read_text()))
print("rank", hvd.rank(), [v.numpy().tolist() for v in trainer.model.variables if "int" in v.dtype])
"""


def test_each_rank_begins_its_masks_elsewhere(tmp_path: Path) -> None:
    samples.train_config(**GOOGLENET).write(tmp_path / "config.json")
    said = launcher.launch(tmp_path, [sys.executable, "-c", STATES, str(tmp_path / "config.json")])
    assert said.returncode == 0, said.stdout
    seeds = {int(rank): int(seed) for rank, seed in re.findall(r"rank (\d) \[\[(\d+), 0\]\]", said.stdout)}
    assert seeds[1] == seeds[0] + 1


def trained(directory: Path) -> list[str]:
    """The digest of the weights after every epoch, which is there only where both ranks have the same weights."""
    said = launcher.train(directory, ranks=2, **GOOGLENET)
    assert said.returncode == 0, said.stdout
    return [epoch.weights_sha256 for epoch in launcher.results(directory).epochs]


def test_ranks_that_drop_other_units_keep_equal_weights_and_the_same_seed_gives_the_same_again(tmp_path: Path) -> None:
    assert trained(tmp_path / "one") == trained(tmp_path / "two")
