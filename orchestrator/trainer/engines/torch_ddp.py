"""PyTorch's DistributedDataParallel, as in its tutorial "Getting Started with Distributed Data Parallel", by torchrun.

Each process has the network wrapped in DDP, which averages gradients in buckets while others are still computed.
"""

import os
import sys
from pathlib import Path

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from orchestrator.schema import TrainConfig
from orchestrator.trainer.engines import engine_loop, step_inputs, torch_engine, weight_files


class TorchDdp(torch_engine.TorchEngine):
    """A process of torchrun."""

    def __init__(self, config: TrainConfig, initial: weight_files.Weights) -> None:
        super().__init__(config, initial, dist.get_rank(), dist.get_world_size())
        self.model = DistributedDataParallel(self.network)


def main(run_directory: Path) -> None:
    """Train as one process of torchrun."""
    config = step_inputs.read_config(run_directory)
    initial = weight_files.initial(run_directory, int(os.environ["RANK"]))
    dist.init_process_group("gloo")
    course = step_inputs.load(config, dist.get_rank(), dist.get_world_size())
    engine_loop.run(run_directory, course, TorchDdp(config, initial))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
