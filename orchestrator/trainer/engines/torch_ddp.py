"""PyTorch's DistributedDataParallel, as in its tutorial "Getting Started with Distributed Data Parallel", by torchrun.

Each process has the network wrapped in DDP, which averages gradients in buckets while others are still computed.
"""

import os
import sys
from pathlib import Path

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from orchestrator.trainer.engines import engine_loop, step_inputs, torch_engine, weight_files


def main(run_directory: Path) -> None:
    config = step_inputs.read_config(run_directory)
    initial = weight_files.initial(run_directory, int(os.environ["RANK"]))
    dist.init_process_group("gloo")
    course = step_inputs.load(config, dist.get_rank(), dist.get_world_size())
    engine = torch_engine.TorchEngine(config, initial, course.rank, course.world)
    engine.model = DistributedDataParallel(engine.network)
    engine_loop.run(run_directory, course, engine)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
