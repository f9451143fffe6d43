"""Compression chosen by measuring the link between real ranks."""

import json
from pathlib import Path
from typing import Any

from orchestrator.schema import Checkpoint
from orchestrator.schema.training import MIN_SPEEDUP
from orchestrator.trainer.checkpoints import checkpoint as checkpoints_checkpoint
from tests import samples
from tests.trainer import launcher


def trained(directory: Path, **changes: Any) -> Any:
    """Return results of one step on two ranks."""
    output = launcher.train(directory, ranks=2, epochs=1, steps=1, **changes)
    assert output.returncode == 0, output.stdout
    return launcher.results(directory)


def stored_file(directory: Path) -> Path:
    return next(directory.glob(".orchestrator-compression-*.json"))


def test_auto_compression_follows_the_measured_speedup(
    tmp_path: Path,
) -> None:
    auto = {"compression": "auto", "precision": "bfloat16"}
    measured = trained(tmp_path / "first", **auto)
    stored = json.loads(stored_file(tmp_path).read_text())
    gain = stored["value"]
    assert measured.config.compression == ("bf16" if gain >= MIN_SPEEDUP else "none")
    for gain, used in ((9.0, "bf16"), (0.5, "none")):
        stored_file(tmp_path).write_text(json.dumps({**stored, "value": gain}))
        results = trained(tmp_path / used, **auto)
        assert (results.config.compression, results.communication.route) == (used, "exchange")
        checkpoint = next((tmp_path / used / "checkpoints").glob("epoch-*"))
        assert Checkpoint.model_validate_json((checkpoint / "checkpoint.json").read_text()).compression == used
        again = samples.train_config(compression="auto", resume=str(checkpoint))
        assert checkpoints_checkpoint.with_resumed_choices(again).compression == used


def test_float32_gradients_are_not_compressed_by_auto(tmp_path: Path) -> None:
    assert trained(tmp_path / "run", compression="auto").config.compression == "none"
    assert not list(tmp_path.glob(".orchestrator-*.json"))
