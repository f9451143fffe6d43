"""Train by ParameterServerStrategy, written like TensorFlow's tutorial on parameter server training."""

import tensorflow as tf

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type in ("worker", "ps"):
    server = tf.distribute.Server(
        resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc", start=True
    )
    server.join()

strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    weights = tf.Variable(tf.zeros([4, 1]))


@tf.function
def step() -> tf.Tensor:
    images = tf.random.normal([32, 4])
    labels = images @ tf.constant([[1.0], [2.0], [3.0], [4.0]])
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((images @ weights - labels) ** 2)
    weights.assign_sub(0.05 * tape.gradient(loss, weights))
    return loss


for _ in range(200):
    coordinator.schedule(step)
coordinator.join()
print(f"trained by {resolver.cluster_spec().num_tasks('worker')} workers: {weights.numpy().ravel().round(1).tolist()}")
