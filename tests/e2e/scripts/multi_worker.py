"""Train by MultiWorkerMirroredStrategy, written like TensorFlow's tutorial on custom training loops."""

import json
import os

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
with strategy.scope():
    weights = tf.Variable(tf.zeros([4, 1]))


@tf.function
def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    def on_replica(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((images @ weights - labels) ** 2)
        gradient = tape.gradient(loss, weights)
        context = tf.distribute.get_replica_context()
        weights.assign_sub(0.1 * context.all_reduce(tf.distribute.ReduceOp.MEAN, gradient))
        return loss

    return strategy.reduce(tf.distribute.ReduceOp.MEAN, strategy.run(on_replica, args=(images, labels)), axis=None)


images = tf.random.stateless_normal([32, 4], seed=[1, index])
labels = images @ tf.constant([[1.0], [2.0], [3.0], [4.0]])
for _ in range(60):
    loss = step(images, labels)
print(f"{strategy.num_replicas_in_sync} replicas: {weights.numpy().ravel().round(2).tolist()}")
