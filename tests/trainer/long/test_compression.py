"""Compression chosen by measuring the link between real ranks."""

import json
from pathlib import Path
from typing import Any

from orchestrator.schema import Checkpoint
from orchestrator.schema.training import MIN_SPEEDUP
from orchestrator.trainer.checkpoints import checkpoint as checkpoints_checkpoint
from tests import samples
from tests.trainer import launcher

CHOICE = """
import sys
from pathlib import Path
import horovod.tensorflow as hvd
from orchestrator.trainer.autotune import choose_exchange
from orchestrator.trainer.comm import allreduce
from tests import samples
from tests.trainer import two_per_node

allreduce.begin()
if sys.argv[2] == "nodes":
    two_per_node.pretend()
config = samples.train_config(compression=sys.argv[3], precision="bfloat16")
chosen = choose_exchange.choose(config, Path(sys.argv[1]), 1 << 20)
print(f"rank {hvd.rank()}: {chosen.compression} {chosen.hierarchical} {allreduce.route(chosen)}")
"""


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
        assert checkpoints_checkpoint.with_resumed_choices(again, 2).compression == used
        assert checkpoints_checkpoint.with_resumed_choices(again, 3).compression == "auto"


def test_float32_gradients_are_not_compressed_by_auto(tmp_path: Path) -> None:
    assert trained(tmp_path / "run", compression="auto").config.compression == "none"
    assert not list(tmp_path.glob(".orchestrator-*.json"))


def choices(directory: Path, *words: str) -> set[str]:
    """Return what each of four ranks chooses."""
    lines = launcher.printed_lines(directory, CHOICE, 4, str(directory / "run"), *words)
    assert len(lines) == 4
    return {line.partition(": ")[2] for line in lines}


def test_means_within_nodes_come_first_if_the_measured_speedup_says_so(tmp_path: Path) -> None:
    assert choices(tmp_path, "one", "bf16") == {"bf16 False exchange"}
    assert not list(tmp_path.glob(".orchestrator-*.json"))
    measured = choices(tmp_path, "nodes", "bf16")
    stored = json.loads((path := next(tmp_path.glob(".orchestrator-hierarchical-bf16-1024k-*.json"))).read_text())
    assert measured == {
        "bf16 True hierarchical" if stored["value"] >= MIN_SPEEDUP else "bf16 False exchange",
    }
    for gain, chosen in ((9.0, "bf16 True hierarchical"), (0.5, "bf16 False exchange")):
        path.write_text(json.dumps({**stored, "value": gain}))
        assert choices(tmp_path, "nodes", "bf16") == {chosen}
        assert choices(tmp_path, "nodes", "auto") <= {chosen, "none False allreduce"}
    assert choices(tmp_path, "nodes", "none") == {"none False allreduce"}
