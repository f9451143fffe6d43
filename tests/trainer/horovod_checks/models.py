"""horovod.tensorflow.keras with Keras 3, or with Keras 2 if TF_USE_LEGACY_KERAS is 1."""

import os
import tempfile
from pathlib import Path
from typing import Any

import horovod.keras as hvk
import horovod.tensorflow as hvt
import horovod.tensorflow.keras as hvd
import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.trainer.horovod_checks import execute, named

KERAS_2 = os.environ.get("TF_USE_LEGACY_KERAS") == "1"
X = np.random.default_rng(hvt.rank() if hvt.is_initialized() else 0).normal(size=(16, 3)).astype("float32")


class Schedule(keras.optimizers.schedules.LearningRateSchedule):  # type: ignore[misc]
    """A learning rate of a script's own class, which is not registered with Keras."""

    def __call__(self, step: Any) -> Any:
        """Return 0.5 for step 0, 0.25 for step 1."""
        return 0.5 / (1 + tf.cast(step, "float32"))

    def get_config(self) -> dict[str, Any]:
        return {}


class ScheduleWithoutConfig(Schedule):
    """A schedule as the tutorials of TensorFlow write it."""

    get_config = keras.optimizers.schedules.LearningRateSchedule.get_config


def network(*extra: Any) -> Any:
    """Return two layers whose weights differ between ranks."""
    start = keras.initializers.Constant(0.1 * (hvd.rank() + 1))
    dense = [keras.layers.Dense(2, kernel_initializer=start), keras.layers.Dense(1, kernel_initializer=start)]
    return keras.Sequential([keras.Input((3,)), dense[0], *extra, dense[1]])


def compiled(optimizer: Any, **options: Any) -> Any:
    model = network()
    model.compile(optimizer, keras.losses.MeanSquaredError(), experimental_run_tf_function=False, **options)
    return model


def fit(model: Any, *callbacks: Any, epochs: int = 2) -> Any:
    return model.fit(X, X[:, :1] * (hvd.rank() + 1), 4, epochs, verbose=0, callbacks=list(callbacks))


def same(model: Any) -> None:
    """Assert that all ranks have the same weights."""
    everywhere = hvt.allgather_object([np.asarray(weight) for weight in model.get_weights()])
    for first, second in zip(*everywhere, strict=True):
        np.testing.assert_array_equal(first, second)


def apply(optimizer: Any, weights: Any) -> None:
    """Apply gradients that are 1 on rank 0 and 2 on rank 1."""
    if KERAS_2:  # Keras' fit reduces while it computes gradients
        loss = lambda: sum(tf.reduce_sum(weight) for weight in weights) * (hvd.rank() + 1.0)  # noqa: E731
        optimizer.apply_gradients(optimizer.compute_gradients(loss, weights))
    else:
        gradients = [tf.ones_like(weight) * (hvd.rank() + 1.0) for weight in weights]
        optimizer.apply_gradients(zip(gradients, weights, strict=True))


def stepped(steps: int = 1, module: Any = hvd, **options: Any) -> float:
    """Return a weight that was 0 after steps of SGD by 1 with gradients 1 on rank 0 and 2 on rank 1."""
    optimizer = module.DistributedOptimizer(keras.optimizers.SGD(1.0), **options)
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")])
    step = tf.function(lambda: apply(optimizer, model.trainable_variables))
    for _ in range(steps):
        step()
    assert int(np.asarray(optimizer.iterations)) == steps
    return float(np.asarray(model.get_weights()[0])[0, 0])


def check_optimizers_of_all_modules() -> None:
    assert [stepped(module=module) for module in (hvt, hvd, hvk)] == [-1.5] * 3


def check_functions_of_the_keras_api() -> None:
    weight = network().trainable_variables[0]
    value = weight.numpy() if KERAS_2 else weight
    for module in (hvd, hvk):
        np.testing.assert_allclose(module.allreduce(value), np.full((3, 2), 0.15), rtol=1e-6)
        np.testing.assert_allclose(module.broadcast(value, 1), np.full((3, 2), 0.2), rtol=1e-6)
        np.testing.assert_allclose(module.allgather(value), np.repeat([[0.1] * 2, [0.2] * 2], 3, axis=0), rtol=1e-6)
        np.testing.assert_allclose(module.reducescatter(value), np.full((2 - hvd.rank(), 2), 0.15), rtol=1e-6)


def check_broadcast_global_variables() -> None:
    for module in (hvt, hvd, hvk):
        with pytest.raises(RuntimeError, match=r"use `hvd\.broadcast_variables"):
            module.broadcast_global_variables(0)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variable = tf.compat.v1.get_variable("variable", initializer=float(hvd.rank()))
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(hvt.broadcast_global_variables(1))
        assert session.run(variable) == 1.0


def check_optimizer_options() -> None:
    assert stepped() == -1.5
    assert [stepped(op=hvd.Sum, module=module) for module in (hvt, hvd, hvk)] == [-3.0] * 3
    assert stepped(gradient_predivide_factor=2.0) == -1.5
    assert stepped(compression=hvd.Compression.fp16) == -1.5
    assert stepped(groups=1) == -1.5
    single_rank = hvt.add_process_set([0])
    assert stepped(process_set=single_rank, op=hvd.Sum) == (-1.0 if hvd.rank() == 0 else -2.0)
    hvt.remove_process_set(single_rank)


def check_backward_passes() -> None:
    options = {"backward_passes_per_step": 2}
    assert [stepped(steps, **options) for steps in (1, 2, 3)] == [0.0, -3.0, -3.0]
    assert stepped(2, average_aggregated_gradients=True, **options) == -1.5


def check_sparse_gradients() -> None:
    words = np.array([[0, 1], [1, 2]], "int32") + hvd.rank()  # word 3 has gradients on rank 1 only
    for options in ({}, {"sparse_as_dense": True}, {"sparse_as_dense": True, "backward_passes_per_step": 2}):
        layers = [keras.Input((2,), dtype="int32"), keras.layers.Embedding(5, 2), keras.layers.Flatten()]
        model = keras.Sequential([*layers, keras.layers.Dense(1)])
        optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1), **options)
        model.compile(optimizer, keras.losses.MeanSquaredError())
        broadcast = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
        model.fit(words, np.ones((2, 1)), 1, 1, verbose=0, callbacks=[broadcast])
        before = np.array(model.layers[0].get_weights()[0])
        model.fit(words, np.ones((2, 1)), 1, 1, verbose=0)
        same(model)
        moved = np.any(before != np.asarray(model.layers[0].get_weights()[0]), axis=1)
        assert moved.tolist() == [True] * 4 + [False]


def check_groups_of_the_tensorflow_api() -> None:
    optimizer = hvt.DistributedOptimizer(keras.optimizers.SGD(0.1), groups=1)
    model = network()

    step = tf.function(lambda: apply(optimizer, model.trainable_variables))
    if KERAS_2:
        optimizer.build(model.trainable_variables)
    graph = step.get_concrete_function().graph.as_graph_def(add_shapes=False)
    operations = {node.op for function in graph.library.function for node in function.node_def}
    assert "HorovodGroupedAllreduce" in operations


def check_groups_of_frozen_layers() -> None:
    model = network()
    groups = [list(layer.trainable_variables) for layer in model.layers]
    model.layers[0].trainable = False
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.01), groups=groups), keras.losses.MeanSquaredError())
    fit(model, hvd.callbacks.BroadcastGlobalVariablesCallback(0))
    same(model)


def check_two_synchronised_normalizations() -> None:
    layers = [hvt.SyncBatchNormalization(), keras.layers.Dense(2), hvt.SyncBatchNormalization(), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((3,)), *layers])
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.01)), keras.losses.MeanSquaredError())
    fit(model, hvd.callbacks.BroadcastGlobalVariablesCallback(0))
    same(model)
    path = Path(tempfile.mkdtemp()) / ("model.h5" if KERAS_2 else "model.keras")
    model.save(path)
    np.testing.assert_allclose(hvd.load_model(str(path)).predict(X, verbose=0), model.predict(X, verbose=0), rtol=1e-5)


def check_fit_with_callbacks() -> None:
    rate = 0.1 * hvd.size()
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(rate, momentum=0.5))
    model = compiled(optimizer)
    warmup = hvd.callbacks.LearningRateWarmupCallback(rate, warmup_epochs=2, steps_per_epoch=4)
    later = hvd.callbacks.LearningRateScheduleCallback(rate, multiplier=0.1, start_epoch=2)
    history = fit(
        model,
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
        warmup,
        later,
        epochs=4,
    ).history
    same(model)
    assert len(set(hvt.allgather_object(tuple(history["loss"])))) == 1
    np.testing.assert_allclose(history["lr"], [0.15, 0.2, 0.2, 0.02], rtol=1e-5)


def check_local_layers() -> None:
    model = network()
    optimizer = hvk.PartialDistributedOptimizer(keras.optimizers.SGD(1.0), local_layers=model.layers[:1])
    before = [np.asarray(weight) for weight in model.get_weights()]
    apply(optimizer, model.trainable_variables)
    moved = [float(np.mean(old - np.asarray(new))) for old, new in zip(before, model.get_weights(), strict=True)]
    alone = (hvd.rank() + 1) / 2
    np.testing.assert_allclose(moved, [alone, alone, 1.5, 1.5], rtol=1e-5)


def check_local_variables_of_the_broadcast() -> None:
    model = compiled(keras.optimizers.SGD(0.0))
    local = list(model.layers[0].variables)
    fit(model, hvd.callbacks.BroadcastGlobalVariablesCallback(1, local_variables=local), epochs=1)
    first, second = (float(np.asarray(layer.get_weights()[0])[0, 0]) for layer in model.layers[-2:])
    np.testing.assert_allclose([first, second], [0.1 * (hvd.rank() + 1), 0.2], rtol=1e-6)


def check_load_model() -> None:
    model = compiled(hvd.DistributedOptimizer(keras.optimizers.Adam(0.01)))
    fit(model, hvd.callbacks.BroadcastGlobalVariablesCallback(0))
    path = Path(tempfile.mkdtemp()) / ("model.h5" if KERAS_2 else "model.keras")
    model.save(path)
    loaded, plain = hvd.load_model(str(path)), keras.models.load_model(str(path))
    assert type(plain.optimizer) is keras.optimizers.Adam
    assert int(np.asarray(loaded.optimizer.iterations)) == 8
    for actual, expected in zip(loaded.optimizer.variables, plain.optimizer.variables, strict=True):
        np.testing.assert_allclose(np.asarray(actual), np.asarray(expected))
    fit(loaded)
    same(loaded)


def check_best_model_checkpoint() -> None:
    callback = hvd.callbacks.BestModelCheckpoint(monitor="loss", save_weights_only=False)
    callback.filepath = str(Path(tempfile.mkdtemp()) / ("best.h5" if KERAS_2 else "best.keras"))
    fit(compiled(hvd.DistributedOptimizer(keras.optimizers.SGD(0.01))), callback, epochs=1)
    assert Path(callback.filepath).is_file()


def check_elastic_state() -> None:
    model = compiled(hvd.DistributedOptimizer(keras.optimizers.Adam(0.01)))
    fit(model)
    state = hvd.elastic.KerasState(model, batch=hvd.rank(), epoch=hvd.rank())
    state.sync()
    same(model)
    weights = model.get_weights()
    fit(model, hvd.elastic.UpdateBatchStateCallback(state), hvd.elastic.UpdateEpochStateCallback(state), epochs=1)
    assert (state.batch, state.epoch) == (0, 1)
    state.restore()
    np.testing.assert_array_equal(np.asarray(model.get_weights()[0]), np.asarray(weights[0]))
    assert (state.batch, state.epoch) == (0, 0)


def check_spellings_of_keras_2() -> None:
    optimizer = keras.optimizers.Adam(0.25)
    assert len(list(optimizer.variables())) == len(list(optimizer.variables))
    assert float(np.asarray(optimizer.lr)) == 0.25
    optimizer.lr.assign(0.5)
    assert float(np.asarray(optimizer.learning_rate)) == 0.5
    first, second = network().variables[:2]
    assert [first.ref() == other.ref() for other in (first, second)] == [True, False]
    rate = keras.optimizers.Adam(lr=0.125).learning_rate  # Keras 2 warns and keeps its default
    assert float(np.asarray(rate)) == pytest.approx(0.001 if KERAS_2 else 0.125)


def check_xla() -> None:
    if not KERAS_2:
        with pytest.raises(ValueError, match="compile the model with jit_compile=False"):
            compiled(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)), jit_compile=True)
    fit(compiled(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)), jit_compile=False), epochs=1)


def check_loss_scale() -> None:
    keras.mixed_precision.set_global_policy("mixed_float16")
    model = compiled(hvd.DistributedOptimizer(keras.optimizers.SGD(0.01)))
    keras.mixed_precision.set_global_policy("float32")
    x = np.full_like(X, np.inf if hvd.rank() else 1.0)  # on one rank no gradient is finite
    model.fit(x, x[:, :1], 4, 1, verbose=0)
    assert [bool(np.isfinite(np.asarray(weight)).all()) for weight in model.get_weights()] == [True] * 4
    fit(model, hvd.callbacks.BroadcastGlobalVariablesCallback(0))
    same(model)


def check_optimizer_behind_a_loss_scale() -> None:
    if KERAS_2:
        return
    model = network()
    optimizer = hvk.PartialDistributedOptimizer(keras.optimizers.SGD(0.5), local_layers=model.layers[:1])
    for given in (optimizer, keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=8.0)):
        keras.mixed_precision.set_global_policy("mixed_float16")
        half = keras.models.clone_model(model)
        half.compile(given, keras.losses.MeanSquaredError())
        keras.mixed_precision.set_global_policy("float32")
        assert half.optimizer.inner_optimizer is optimizer
    assert half.optimizer.initial_scale == 8.0
    optimizer.learning_rate.assign(1.0)
    before = [np.asarray(weight) for weight in model.get_weights()]
    model.compile(given, keras.losses.MeanSquaredError())
    apply(model.optimizer, model.trainable_variables)
    moved = [float(np.mean(old - np.asarray(new))) * 8 for old, new in zip(before, model.get_weights(), strict=True)]
    alone = (hvd.rank() + 1) / 2
    np.testing.assert_allclose(moved, [alone, alone, 1.5, 1.5], rtol=1e-5)


def check_schedules_of_own_classes() -> None:
    for rate in (Schedule(), ScheduleWithoutConfig(), lambda: 0.375):
        optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(rate))
        model = compiled(optimizer)
        before = [np.asarray(weight) for weight in model.get_weights()]
        for _ in range(2):
            apply(optimizer, model.trainable_variables)
        moved = [float(np.mean(old - np.asarray(new))) for old, new in zip(before, model.get_weights(), strict=True)]
        np.testing.assert_allclose(moved, [1.5 * 0.75] * 4, rtol=1e-5)


def check_schedule_behind_a_loss_scale() -> None:
    if KERAS_2:
        return
    optimizer = keras.optimizers.AdamW(ScheduleWithoutConfig())
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    scaled = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=8.0, dynamic_growth_steps=3, name="scaled")
    distributed = hvd.DistributedOptimizer(scaled)
    assert (distributed.initial_scale, distributed.dynamic_growth_steps, distributed.name) == (8.0, 3, "scaled")
    inner = distributed.inner_optimizer
    assert inner is not optimizer
    assert inner._learning_rate is optimizer._learning_rate
    assert inner._exclude_from_weight_decay_pattern == optimizer._exclude_from_weight_decay_pattern
    model = compiled(keras.optimizers.LossScaleOptimizer(hvd.DistributedOptimizer(optimizer)))
    fit(model, hvd.callbacks.BroadcastGlobalVariablesCallback(0), epochs=1)
    same(model)


def check_load_model_with_a_schedule() -> None:
    if KERAS_2:
        return
    model = compiled(hvd.DistributedOptimizer(keras.optimizers.SGD(Schedule())))
    fit(model, hvd.callbacks.BroadcastGlobalVariablesCallback(0), epochs=1)
    path = Path(tempfile.mkdtemp()) / "model.keras"
    model.save(path)
    loaded = hvd.load_model(str(path), custom_objects={"Schedule": Schedule})
    assert float(np.asarray(loaded.optimizer.learning_rate)) == pytest.approx(0.1)
    fit(loaded, epochs=1)
    same(loaded)


def check_exclusion_from_weight_decay() -> None:
    if KERAS_2:
        return
    optimizer = keras.optimizers.AdamW(0.1, weight_decay=0.5)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    layer = keras.layers.Dense(1, bias_initializer="ones", kernel_initializer="ones")
    model = keras.Sequential([keras.Input((1,)), layer])
    distributed = hvd.DistributedOptimizer(optimizer)
    distributed.apply([tf.zeros((1, 1)), tf.zeros(1)], model.trainable_variables)
    np.testing.assert_allclose([float(np.asarray(weight).sum()) for weight in model.get_weights()], [0.95, 1.0])


def check_load_model_that_was_compiled_with_xla() -> None:
    if KERAS_2:
        return
    model = network()
    model.compile(keras.optimizers.SGD(0.01), keras.losses.MeanSquaredError(), jit_compile=True)
    path = Path(tempfile.mkdtemp()) / "model.keras"
    model.save(path)
    loaded = hvd.load_model(str(path))
    fit(loaded, hvd.callbacks.BroadcastGlobalVariablesCallback(0), epochs=1)
    same(loaded)


def check_spellings_for_the_package_keras() -> None:
    import keras as package  # noqa: PLC0415  Keras 3, also if TensorFlow uses Keras 2

    assert float(np.asarray(package.optimizers.SGD(lr=0.125).learning_rate)) == 0.125


def check_failures_of_elastic_functions() -> None:
    def fails(state: Any, message: str) -> None:
        raise tf.errors.UnknownError(None, None, message)

    wrapped = hvd.elastic.run(fails)
    state = hvd.elastic.KerasState(compiled(hvd.DistributedOptimizer(keras.optimizers.SGD(0.01))))
    with pytest.raises(tf.errors.UnknownError, match="KeyError: 3"):
        wrapped(state, "KeyError: 3")


if __name__ == "__main__":
    execute(named(globals()))
