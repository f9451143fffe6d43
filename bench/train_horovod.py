"""Run Horovod's example script with another image size: run by ``bench.train`` in a container.

    python -m bench.train_horovod SCRIPT PIXELS [arguments of the script]

The script has a fixed size of 224 pixels: here its network and its random images get PIXELS, without a change of the
script. It dates from 2019; with Keras 3 in place of its own Keras, it also gets the interfaces that it expects.
"""

import os
import runpy
import sys
from typing import Any

import horovod.tensorflow as hvd
import tensorflow as tf
from tensorflow.keras import applications

PIXELS_OF_THE_SCRIPT = 224


def resize(pixels: int) -> None:
    build, uniform = applications.ResNet50, tf.random.uniform

    def sized(shape: Any, *args: Any, **options: Any) -> tf.Tensor:
        return uniform([pixels if length == PIXELS_OF_THE_SCRIPT else length for length in shape], *args, **options)

    applications.ResNet50 = lambda **options: build(**options, input_shape=(pixels, pixels, 3))
    tf.random.uniform = sized


def keras_2_in_keras_3() -> None:
    """Provide variables that Horovod accepts, and an `optimizer.variables` that can be called."""
    import keras  # noqa: PLC0415

    broadcast, reference = hvd.broadcast_variables, tf.Variable.ref

    class Variables(list[Any]):
        """Variables that can also be called."""

        def __call__(self) -> "Variables":
            return self

    class SGD(keras.optimizers.SGD):
        """SGD with variables that can also be called."""

        @property
        def variables(self) -> Variables:
            return Variables(super().variables)

    def broadcast_values(variables: Any, root_rank: int) -> None:
        broadcast([getattr(variable, "value", variable) for variable in variables], root_rank=root_rank)

    keras.Variable.ref = lambda self: reference(self.value)
    hvd.broadcast_variables = broadcast_values
    tf.optimizers.SGD = SGD


def main(script: str, pixels: int, *arguments: str) -> None:
    resize(pixels)
    if os.environ.get("TF_USE_LEGACY_KERAS") != "1":
        keras_2_in_keras_3()
    sys.argv = [script, *arguments]
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
