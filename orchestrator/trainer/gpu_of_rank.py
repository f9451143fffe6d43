"""Choice of a rank's GPU, for every framework. It imports the standard library only, until TensorFlow is asked."""

import os
import sys
from pathlib import Path

from orchestrator.launch_layout import VISIBLE_GPUS

DEVICE = Path("/dev/nvidiactl")  # of NVIDIA's driver; a container has it only if it is given GPUs
HIDDEN = ("", "-1")  # values of CUDA's variable that hide all


def choose_for_tensorflow(local_rank: int) -> None:
    """Let TensorFlow see the GPU of the rank with this number on its node alone, if the node has GPUs."""
    import tensorflow as tf  # noqa: PLC0415  PyTorch's image has none

    gpus = tf.config.list_physical_devices("GPU")
    if (own := index(local_rank, len(gpus), "TensorFlow")) is not None:
        tf.config.set_visible_devices(gpus[own], "GPU")


def index(local_rank: int, found: int, framework: str) -> "int | None":
    """Return the number of the GPU that a rank uses; None on a node without GPUs.

    Ends the program if the node has GPUs and ``framework`` does not find them: it would train on CPUs, without a word.

    Args:
        local_rank: The rank's number on its node.
        found: Number of GPUs that the framework finds.
        framework: Name of the framework, for the message.
    """
    if found:
        return local_rank % found
    if DEVICE.exists() and os.environ.get(VISIBLE_GPUS, "0") not in HIDDEN:
        sys.exit(
            f"{framework} finds no GPU, but this node has one ({DEVICE}): `nvidia-smi` on the node shows whether its"
            f" driver works. To train on CPUs, set `gpu.driver: none` in cluster.yaml and deploy again"
        )
    return None
