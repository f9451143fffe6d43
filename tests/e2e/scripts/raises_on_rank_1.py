"""Rank 1 raises in the middle; the others wait for it in an allreduce."""

import horovod.tensorflow as hvd
import tensorflow as tf

hvd.init()
for step in range(100):
    hvd.allreduce(tf.constant(1.0))
    if step == 20 and hvd.rank() == 1:
        raise ValueError("the moon is in the wrong house")
