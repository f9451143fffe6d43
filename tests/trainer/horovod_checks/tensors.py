"""horovod.tensorflow with variables of Keras 3."""

from typing import Any

import horovod.tensorflow as hvd
import keras
import numpy as np
import tensorflow as tf

from tests.trainer.horovod_checks import execute, named


def variable(values: list[float]) -> keras.Variable:
    """Return a variable with the same name as every other one."""
    return keras.Variable(np.array(values, "float32"), name="kernel")


def mine() -> keras.Variable:
    """Return (1, 1) on rank 0, (2, 2) on rank 1."""
    return variable([hvd.rank() + 1.0] * 2)


def check_collectives() -> None:
    np.testing.assert_allclose(hvd.allreduce(mine()), [1.5, 1.5])
    np.testing.assert_allclose(hvd.allreduce(mine(), op=hvd.Sum, compression=hvd.Compression.fp16), [3, 3])
    if hvd.mpi_enabled():  # Horovod has Adasum over MPI only
        np.testing.assert_allclose(hvd.allreduce(mine(), op=hvd.Adasum), [1.5, 1.5])
    np.testing.assert_allclose(hvd.grouped_allreduce([mine(), mine()]), [[1.5, 1.5]] * 2)
    np.testing.assert_allclose(hvd.allgather(mine()), [1, 1, 2, 2])
    np.testing.assert_allclose(hvd.grouped_allgather([mine()])[0], [1, 1, 2, 2])
    np.testing.assert_allclose(hvd.broadcast(mine(), 1), [2, 2])
    np.testing.assert_allclose(hvd.alltoall(mine()), [1, 2])
    np.testing.assert_allclose(hvd.reducescatter(mine(), compression=hvd.Compression.fp16), [1.5])
    np.testing.assert_allclose(hvd.grouped_reducescatter([mine()], op=hvd.Sum)[0], [3])


def check_broadcast_variables() -> None:
    for inplace in (False, True):
        variables = [mine(), mine()]
        hvd.broadcast_variables(variables, root_rank=1, inplace=inplace)
        np.testing.assert_allclose([v.numpy() for v in variables], [[2, 2]] * 2)


def gradients(weights: list[keras.Variable], **options: Any) -> Any:
    """Return gradients of the sum of weights times (rank + 1)."""
    with tf.GradientTape() as tape:
        loss = sum(tf.reduce_sum(weight * (hvd.rank() + 1.0)) for weight in weights)
    return hvd.DistributedGradientTape(tape, **options).gradient(loss, weights)


def check_gradient_tape() -> None:
    np.testing.assert_allclose(gradients([mine(), mine()]), [[1.5, 1.5]] * 2)
    np.testing.assert_allclose(gradients([mine()], op=hvd.Sum), [[3, 3]])
    np.testing.assert_allclose(gradients([mine()], gradient_predivide_factor=2.0), [[1.5, 1.5]])


def check_local_sources() -> None:
    shared, local = mine(), mine()
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(shared * local)
    distributed = hvd.DistributedGradientTape(tape)
    distributed.register_local_source(local)
    local_gradients, all_of_them = distributed.get_local_and_global_gradients(loss, [shared, local])
    assert [source is local for source, _ in local_gradients] == [True]
    np.testing.assert_allclose(local_gradients[0][1], [(hvd.rank() + 1) / 2] * 2)
    np.testing.assert_allclose(all_of_them[0][1], [1.5, 1.5])


def check_groups_of_variables_with_one_name() -> None:
    weights = [mine(), mine(), mine()]
    np.testing.assert_allclose(gradients(weights, groups=[weights[:2]]), [[1.5, 1.5]] * 3)
    np.testing.assert_allclose(gradients(weights, groups=2), [[1.5, 1.5]] * 3)


def check_groups_without_gradients() -> None:
    used, unused = mine(), mine()
    for groups in ([[used], [unused]], [[used, unused]], 3):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(used * (hvd.rank() + 1.0))
        reduced, none = hvd.DistributedGradientTape(tape, groups=groups).gradient(loss, [used, unused])
        np.testing.assert_allclose(reduced, [1.5, 1.5])
        assert none is None


def check_batch_normalization() -> None:
    """Use also a mean that is large compared to the deviation, as of years."""
    for mean, tolerance in ((0, 1e-5), (2000, 3e-3)):
        whole = (mean + np.random.default_rng(0).normal(size=(8, 3))).astype("float32")
        synchronised, reference = hvd.SyncBatchNormalization(), keras.layers.BatchNormalization()
        normalized = synchronised(whole[hvd.rank() * 4 :][:4], training=True).numpy()
        expected = reference(whole, training=True).numpy()[hvd.rank() * 4 :][:4]
        np.testing.assert_allclose(normalized, expected, atol=tolerance)
        np.testing.assert_allclose(synchronised.moving_variance, reference.moving_variance, rtol=1e-5)


def check_elastic_state_of_variables() -> None:
    weights = [mine()]
    state = hvd.elastic.TensorFlowState(weights, batch=hvd.rank())
    weights[0].assign([hvd.rank() + 5.0] * 2)
    state.sync()
    np.testing.assert_allclose(weights[0], [5, 5])
    assert state.batch == 0


if __name__ == "__main__":
    execute(named(globals()))
