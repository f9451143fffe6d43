"""Choice of XLA for the forward and backward passes: on GPUs, if the run is long enough to repay the compilation.

Measured on one H100 with ResNet-50 at 224 pixels in bfloat16: 2.4 times the images/s, and 34 s to compile, which are
repaid after 100,000 images. MobileNetV2 and ResNet-101 take as long to compile, ResNet-20 8 s. On CPUs XLA is slower
(docs/performance-record.md).
"""

import horovod.tensorflow as hvd
import tensorflow as tf

from orchestrator.schema import TrainConfig

LEAST_IMAGES = 100_000  # of a rank in the whole run
LEAST_SECONDS = 300.0  # of a run with a time limit


def choose(config: TrainConfig, images: int) -> bool:
    """Choose whether XLA compiles: as ``config`` says, or the same on all ranks. A collective call.

    ``images`` is the number that a rank trains on in all epochs.
    """
    if config.xla is not None:
        return config.xla
    long = images >= LEAST_IMAGES and (config.max_time is None or config.max_time >= LEAST_SECONDS)
    return long and all(hvd.allgather_object(bool(tf.config.get_visible_devices("GPU"))))
