"""Horovod with PyTorch, as Horovod's page "Horovod with PyTorch" has it.

``hvd.DistributedOptimizer`` averages each gradient over all ranks while others are still computed; rank 0's parameters
are broadcast before the first step. The page also broadcasts the optimizer's state, which is empty here: Horovod would
fill it by a step without gradients, after which momentum begins with the weight decay.
"""

import sys
from pathlib import Path

import horovod
import horovod.torch as hvd
import numpy as np
import torch

from orchestrator.schema import TrainConfig
from orchestrator.trainer.engines import engine_loop, step_inputs, torch_engine, weight_files


class HorovodTorch(torch_engine.TorchEngine):
    """A rank of Horovod."""

    def __init__(self, config: TrainConfig, initial: weight_files.Weights) -> None:
        super().__init__(config, initial, hvd.rank(), hvd.size(), horovod=horovod.__version__)
        self.network.to(memory_format=torch.contiguous_format)  # Horovod sends no other
        self.optimizer = hvd.DistributedOptimizer(
            self.optimizer,
            named_parameters=self.network.named_parameters(),
            compression=hvd.Compression.fp16 if config.compression == "fp16" else hvd.Compression.none,
        )
        hvd.broadcast_parameters(self.network.state_dict(), root_rank=0)

    def sum(self, numbers: np.ndarray) -> np.ndarray:
        return hvd.allreduce(torch.from_numpy(numbers.copy()), op=hvd.Sum, name="sum").numpy()


def main(run_directory: Path) -> None:
    config = step_inputs.read_config(run_directory)
    hvd.init()
    course = step_inputs.load(config, hvd.rank(), hvd.size())
    engine_loop.run(run_directory, course, HorovodTorch(config, weight_files.initial(run_directory, hvd.rank())))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
