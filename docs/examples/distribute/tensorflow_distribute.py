"""Train on all ranks with tf.distribute and Keras 2. The numbered lines make the script distributed."""

import os
import tempfile
from pathlib import Path

os.environ["TF_USE_LEGACY_KERAS"] = "1"  # model.fit of Keras 3 does not work with this strategy

import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()  # 1. join the other ranks, 2. each with its own GPU
is_first = strategy.cluster_resolver.task_id == 0

points = np.random.default_rng(0).normal(size=(20_000, 2))
labels = (np.linalg.norm(points, axis=1) > 1.2).astype(int)  # outside or inside a circle
data = tf.data.Dataset.from_tensor_slices((points, labels)).shuffle(20_000, seed=0)
data = data.batch(64 * strategy.num_replicas_in_sync)  # 3. give each rank its share: model.fit divides batches

with strategy.scope():  # 4. average the gradients of all ranks
    network = tf.keras.Sequential([tf.keras.layers.Dense(32, activation="relu"), tf.keras.layers.Dense(2)])
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    network.compile(tf.keras.optimizers.SGD(0.1, momentum=0.9), loss, metrics=["accuracy"])
network.fit(data, epochs=3, verbose=2 if is_first else 0)  # 5. print on one rank only, save on all
directory = os.environ["ORCHESTRATOR_OUTPUT"] if is_first else tempfile.mkdtemp()
network.save(Path(directory, "network.keras"))
