"""Train on all ranks with Keras' model.fit and Horovod. The numbered lines make the script distributed."""

import os
from pathlib import Path

import horovod.keras as hvd
import keras
import numpy as np
import tensorflow as tf

hvd.init()  # 1. join the other ranks
gpus = tf.config.list_physical_devices("GPU")
tf.config.set_visible_devices(gpus[hvd.local_rank() :][:1], "GPU")  # 2. use another GPU on each rank

points = np.random.default_rng(0).normal(size=(20_000, 2))
labels = (np.linalg.norm(points, axis=1) > 1.2).astype(int)  # outside or inside a circle
equal = len(points) // hvd.size() * hvd.size()  # all ranks must make equally many steps
share = slice(hvd.rank(), equal, hvd.size())  # 3. give each rank another share of the data

network = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(2)])
optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1, momentum=0.9))  # 4. average the gradients of all ranks
network.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
network.fit(
    points[share],
    labels[share],
    batch_size=64,
    epochs=3,
    verbose=2 if hvd.rank() == 0 else 0,  # 5. print and save on one rank only
    callbacks=[
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),  # begin with the weights of rank 0
        hvd.callbacks.MetricAverageCallback(),
    ],
)
if hvd.rank() == 0:
    network.save_weights(Path(os.environ["ORCHESTRATOR_OUTPUT"], "network.weights.h5"))
