"""All engines compute the same: weights after a step, and accuracy after three epochs, equal the trainer's."""

from pathlib import Path

import numpy as np
import pytest

from tests.engines.conftest import Train, weights

SYNCHRONOUS = ("horovod-tensorflow", "horovod-torch", "torch-ddp", "ray-torch", "tensorflow-multiworker")
PER_TENSOR = 1e-5  # relative tolerance per tensor without batch normalisation
WHOLE = 1e-4  # with batch normalisation: in float32 the gradients of its offsets are sums that cancel
POINTS = 0.01  # of top-1


def difference(actual: np.ndarray, expected: np.ndarray) -> float:
    return float(np.linalg.norm(actual - expected) / np.linalg.norm(expected))


@pytest.mark.parametrize("engine", SYNCHRONOUS)
def test_lenet_weights_equal_the_trainers_after_a_step(train: Train, tmp_path: Path, engine: str) -> None:
    trainer, other = (weights(train(name, "lenet", "--steps", "1"), tmp_path) for name in ("ours", engine))
    differences = {name: difference(other[name], trainer[name]) for name in trainer}
    print(engine, differences)
    assert set(other) == set(trainer)
    assert max(differences.values()) < PER_TENSOR


@pytest.mark.parametrize("engine", SYNCHRONOUS)
def test_batch_norm_network_equals_the_trainers_after_a_step(train: Train, tmp_path: Path, engine: str) -> None:
    trainer, other = (weights(train(name, "resnet20", "--steps", "1"), tmp_path) for name in ("ours", engine))
    trained = [name for name in trainer if "/moving_" not in name]
    reference, others = (np.concatenate([each[name].ravel() for name in trained]) for each in (trainer, other))
    print(engine, difference(others, reference), {name: difference(other[name], trainer[name]) for name in trained})
    assert difference(others, reference) < WHOLE


@pytest.mark.parametrize("engine", [*SYNCHRONOUS, "tensorflow-parameter-server", "single"])
def test_accuracy_equals_the_trainers_after_three_epochs(train: Train, engine: str) -> None:
    trainer, other = (train(name, "lenet", "--epochs", "3") for name in ("ours", engine))
    print(engine, other.epochs[-1].test.top1, trainer.epochs[-1].test.top1)
    assert [epoch.epoch for epoch in other.epochs] == [1, 2, 3]
    assert (other.engine, other.ended) == (engine, "epochs")
    assert abs(other.epochs[-1].test.top1 - trainer.epochs[-1].test.top1) <= POINTS
    assert other.world.size == (1 if engine == "single" else 2)
    assert len(set(other.world.hosts)) == other.world.size
