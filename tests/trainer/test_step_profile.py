"""Profile of a run of one rank."""

from pathlib import Path

import horovod.tensorflow as hvd
import tensorflow as tf

from orchestrator.schema import Profile
from orchestrator.trainer.step_profile import StepProfile
from tests import samples
from tests.trainer import launcher

MIB = 1 << 20


def test_run_of_one_rank_leaves_a_profile(tmp_path: Path) -> None:
    """An epoch of 70 images has four steps; the first of each epoch does not count."""
    output = launcher.train(tmp_path / "run", 1, epochs=2)
    assert output.returncode == 0, output.stdout
    profile = Profile.model_validate_json((tmp_path / "run" / "profile.json").read_text())
    assert (profile.model, profile.batch, profile.precision) == ("resnet20", 16, "float32")
    assert sum(ready.bytes for ready in profile.gradients) == 4 * launcher.results(tmp_path / "run").parameters
    assert len(profile.steps) == 6
    assert min(profile.steps) > 0


def test_run_of_several_passes_writes_no_profile(tmp_path: Path) -> None:
    """Its gradients are all ready at the end."""
    launcher.train(tmp_path / "run", 1, backward_passes_per_step=2, batch_size=8)
    assert not (tmp_path / "run" / "profile.json").exists()


def test_run_of_several_ranks_writes_no_profile(tmp_path: Path) -> None:
    launcher.train(tmp_path / "run", 2)
    assert not (tmp_path / "run" / "profile.json").exists()


def test_parts_of_large_gradients_are_timed_separately() -> None:
    """Three parts of gradients, the last variable's first; a pause between steps counts for none."""
    profile = StepProfile()
    sizes = [MIB, MIB // 8, MIB // 8, MIB]

    def watch() -> tf.Tensor:
        return profile.watch([tf.ones([size]) for size in sizes])

    hvd.init()
    step = tf.function(watch, autograph=False)
    for number in range(5):
        if number == 3:
            profile.pause()
        profile.record(step()[None].numpy())
    measured = profile.result(samples.train_config())
    assert measured is not None
    assert [ready.bytes for ready in measured.gradients] == [4 * MIB, MIB, 4 * MIB]
    assert len(measured.steps) == 3
    assert min(ready.seconds for ready in measured.gradients) >= 0
