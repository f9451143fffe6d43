"""Write the trained network as a TensorFlow SavedModel, which loads without this package: ``RUN/output/model``.

It computes in float32 whatever the run computed in: TensorFlow has no convolution in bfloat16 for CPUs without AVX-512.
The network is therefore built again, from the same variables.
"""

import shutil
from pathlib import Path

import keras
import tensorflow as tf

from orchestrator.schema import SAVED_MODEL, TrainConfig
from orchestrator.schema.atomic_write import flush
from orchestrator.trainer.data import in_memory, sdss
from orchestrator.trainer.models import networks_by_name

UNFINISHED = ".unfinished-model"  # outside of output/, which is copied to the user's machine during the run


class NotWritten(Exception):
    """The network could not be written."""


def write(run_directory: Path, config: TrainConfig, model: keras.Model) -> None:
    """Write ``model`` as a SavedModel; a process that is killed leaves none.

    Its signatures ``serve`` and ``serving_default`` map images, or a table's columns as they are in its file, of any
    batch size, to float32 logits.

    Args:
        run_directory: The run's.
        config: Names the network and its sizes.
        model: Network of ``config`` in any precision.

    Raises:
        NotWritten: With the path, the reason, and the command that writes it again.
    """
    unfinished, finished = run_directory / UNFINISHED, run_directory / SAVED_MODEL
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        finished.parent.mkdir(exist_ok=True)
        _export(_standardising(config, _in_float32(config, model)), unfinished)
        unfinished.rename(finished)
        flush(finished.parent)
    except (OSError, tf.errors.OpError) as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        repair = f"`orchestrator train --resume {config.run} --save-model` writes it when this is corrected"
        raise NotWritten(f"the trained network could not be written to {finished}: {error}: {repair}") from error


def _in_float32(config: TrainConfig, model: keras.Model) -> keras.Model:
    """Build the network of ``config`` again, computing in float32, with the variables of ``model``."""
    policy = keras.mixed_precision.dtype_policy()
    keras.mixed_precision.set_dtype_policy("float32")
    try:
        built = networks_by_name.build(config.model, config.image_size, config.channels, config.classes, config.seed)
    finally:
        keras.mixed_precision.set_dtype_policy(policy)
    built.set_weights(model.get_weights())
    return built


def _standardising(config: TrainConfig, model: keras.Model) -> keras.Model:
    """Let the network take the columns of a table as they are in its file; for images return ``model``.

    The columns are standardised in float32, also if the run computed in 16 bits, which would round magnitudes too much.
    """
    if config.dataset != "sdss":
        return model
    (trained,) = model.inputs
    rows, _ = sdss.read(Path(config.data or ""))
    mean, scale = in_memory.mean_and_scale(rows)
    inputs = keras.Input(trained.shape[1:], dtype=trained.dtype)
    standardise = keras.layers.Normalization(axis=-1, mean=mean, variance=scale**2, dtype="float32")
    return keras.Model(inputs, model(standardise(inputs)))


def _export(model: keras.Model, directory: Path) -> None:
    (inputs,) = model.inputs
    signature = tf.TensorSpec(inputs.shape, inputs.dtype, "inputs")
    model.export(str(directory), format="tf_saved_model", verbose=False, input_signature=[signature])
    for path in [*directory.rglob("*"), directory]:
        flush(path)
