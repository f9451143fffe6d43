"""Engines train the same: weights after a step, and the accuracy after three epochs, beside ours."""

from pathlib import Path

import numpy as np
import pytest

from tests.engines.conftest import Train, weights

SYNCHRONOUS = ("horovod-tensorflow", "horovod-torch", "torch-ddp", "ray-torch", "tensorflow-multiworker")
PER_TENSOR = 1e-5  # of a network without batch normalisation
WHOLE = 1e-4  # of one with it: in float32 the gradients of its offsets are sums that cancel
POINTS = 0.01  # of top-1


def difference(mine: np.ndarray, other: np.ndarray) -> float:
    return float(np.linalg.norm(mine - other) / np.linalg.norm(other))


@pytest.mark.parametrize("engine", SYNCHRONOUS)
def test_every_tensor_of_lenet_is_ours_after_a_step(train: Train, tmp_path: Path, engine: str) -> None:
    ours, other = (weights(train(name, "lenet", "--steps", "1"), tmp_path) for name in ("ours", engine))
    differences = {name: difference(other[name], ours[name]) for name in ours}
    print(engine, differences)
    assert set(other) == set(ours)
    assert max(differences.values()) < PER_TENSOR


@pytest.mark.parametrize("engine", SYNCHRONOUS)
def test_a_network_with_batch_normalisation_is_ours_after_a_step(train: Train, tmp_path: Path, engine: str) -> None:
    ours, other = (weights(train(name, "resnet20", "--steps", "1"), tmp_path) for name in ("ours", engine))
    trained = [name for name in ours if "/moving_" not in name]
    mine, others = (np.concatenate([each[name].ravel() for name in trained]) for each in (ours, other))
    print(engine, difference(others, mine), {name: difference(other[name], ours[name]) for name in trained})
    assert difference(others, mine) < WHOLE


@pytest.mark.parametrize("engine", [*SYNCHRONOUS, "tensorflow-parameter-server", "single"])
def test_the_accuracy_is_ours_after_three_epochs(train: Train, engine: str) -> None:
    ours, other = (train(name, "lenet", "--epochs", "3") for name in ("ours", engine))
    print(engine, other.epochs[-1].test.top1, ours.epochs[-1].test.top1)
    assert [epoch.epoch for epoch in other.epochs] == [1, 2, 3]
    assert (other.engine, other.ended) == (engine, "epochs")
    assert abs(other.epochs[-1].test.top1 - ours.epochs[-1].test.top1) <= POINTS
    assert other.world.size == (1 if engine == "single" else 2)
    assert len(set(other.world.hosts)) == other.world.size
