"""Steps of TensorFlow's engines in this process."""

from collections.abc import Callable
from typing import Any

import horovod.tensorflow as hvd
import numpy as np
import pytest

from orchestrator.schema import TrainConfig
from orchestrator.trainer.engines import keras_network
from orchestrator.trainer.engines.horovod_tensorflow import HorovodTensorflow
from orchestrator.trainer.engines.single import Single
from orchestrator.trainer.engines.weight_files import Weights
from tests import samples


def horovod(config: TrainConfig, initial: Weights) -> HorovodTensorflow:
    hvd.init()
    return HorovodTensorflow(config, initial)


def single(config: TrainConfig, initial: Weights) -> Single:
    return Single(config, initial, 1)


@pytest.mark.parametrize("engine", [horovod, single])
def test_only_the_first_step_compiles(engine: Callable[[TrainConfig, Weights], Any]) -> None:
    """It is the only one that rates leave out."""
    config, random = samples.train_config(model="lenet"), np.random.default_rng(1)
    images, labels = random.normal(size=(12, 28, 28, 1)).astype(np.float32), random.integers(0, 10, 12)
    trained, traces = engine(config, keras_network.read(keras_network.build(config))), []
    for batch in trained.batches((images, labels), np.arange(12).reshape(3, 4)):
        trained.train(batch, 0.1)
        traces.append(trained._training_step.experimental_get_tracing_count())
    assert traces == [traces[0]] * 3
