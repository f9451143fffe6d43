"""Horovod's example script with another image size, from outside: run by ``bench.train`` in a container.

    python -m bench.train_horovod SCRIPT PIXELS [arguments of the script]

The script has 224 pixels written in it: here the network and the random images that it asks for get PIXELS. It is of
2019; where Keras 3 stands in for the Keras that it was written for, it also gets what it would find there.
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
    """Variables that Horovod can take, and `optimizer.variables` to be called."""
    import keras  # noqa: PLC0415

    broadcast, reference = hvd.broadcast_variables, tf.Variable.ref

    class Variables(list[Any]):
        def __call__(self) -> "Variables":
            return self

    class SGD(keras.optimizers.SGD):
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
