"""The operation that resizes images in 8 bits compared with TensorFlow's operations."""

import numpy as np
import pytest
import tensorflow as tf

from orchestrator.trainer.tensorflow_operations import image_resize, library


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (7, 1), (5, 5), (32, 31), (375, 500), (640, 113)])
@pytest.mark.parametrize("size", [1, 2, 32, 224, 299])
def test_bits_are_those_of_tensorflow(shape: tuple[int, int], size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert library.load_for_input() is not None
    image = tf.constant(np.random.default_rng(1).integers(0, 256, (*shape, 3), np.uint8))
    own = image_resize.resize(image, size)
    monkeypatch.setattr(library, "load_for_input", lambda: None)
    assert np.array_equal(own, image_resize.resize(image, size))


def test_shape_of_the_result_is_known_before_it_is_computed() -> None:
    image = tf.TensorSpec([None, None, None], tf.uint8)
    graph = tf.function(lambda pixels: image_resize.resize(pixels, 8)).get_concrete_function(image)
    assert graph.structured_outputs.shape == (8, 8, 3)


@pytest.mark.parametrize("shape", [(4, 4), (4, 4, 1), (0, 4, 3)])
def test_image_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"expected \(height, width, 3\)"):
        image_resize.resize(tf.zeros(shape, tf.uint8), 8)
