"""Whether XLA compiles a run, on a rank with and without a GPU."""

from pathlib import Path

import horovod.tensorflow as hvd
import pytest
import tensorflow as tf

from orchestrator.trainer.autotune import choose_xla
from orchestrator.trainer.autotune.choose_xla import LEAST_IMAGES
from orchestrator.trainer.checkpoints import checkpoint
from tests import samples
from tests.trainer import launcher


@pytest.mark.parametrize(
    ("gpu", "images", "max_time", "expected"),
    [
        (True, LEAST_IMAGES, None, True),
        (True, LEAST_IMAGES, 3600.0, True),
        (True, LEAST_IMAGES - 1, None, False),
        (True, LEAST_IMAGES, 60.0, False),
        (False, 10 * LEAST_IMAGES, None, False),
    ],
)
def test_long_runs_on_gpus_are_compiled(
    monkeypatch: pytest.MonkeyPatch, gpu: bool, images: int, max_time: "float | None", expected: bool
) -> None:
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: ["fake GPU"] * gpu)
    monkeypatch.setattr(hvd, "allgather_object", lambda value: [value])
    assert choose_xla.choose(samples.train_config(max_time=max_time), images) is expected
    for asked in (True, False):
        assert choose_xla.choose(samples.train_config(max_time=max_time, xla=asked), images) is asked


def test_choice_is_recorded_and_kept_when_resumed(tmp_path: Path) -> None:
    run = tmp_path / "auto"
    launcher.train(run, ranks=2, epochs=1, steps=2)
    written = launcher.results(run)
    assert written.config.xla is False
    assert "xla" in written.chosen
    saved = next((run / "checkpoints").glob("epoch-*"))
    assert checkpoint.with_resumed_choices(samples.train_config(resume=str(saved)), 1).xla is False
