"""Common part of PyTorch's engines: threads, precision, input, loss and scores of a network of PyTorch's modules."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from orchestrator.schema import TrainConfig
from orchestrator.trainer.data.in_memory import Arrays
from orchestrator.trainer.engines import torch_networks
from orchestrator.trainer.engines.weight_files import Weights


class Samples(Dataset[tuple[Tensor, Tensor]]):
    """A split in memory, of which one asks for a batch at once."""

    def __init__(self, split: Arrays) -> None:
        self.images, self.labels = (torch.tensor(values) for values in split)

    def __getitem__(self, numbers: np.ndarray) -> tuple[Tensor, Tensor]:
        indices = torch.from_numpy(numbers)
        return self.images[indices % len(self.images)], self.labels[indices]


class TorchEngine:
    """A rank with a network and an optimizer of PyTorch; engines add how ranks exchange gradients.

    ``model`` is the network as it is called: an engine may wrap ``network``.
    """

    splits_time = False

    def __init__(self, config: TrainConfig, initial: Weights, rank: int, world: int, **versions: str) -> None:
        torch.set_num_threads(config.threads)
        torch.manual_seed(config.seed + rank)  # of dropout: weights are read
        self.config, self.world, self.versions = config, world, {"torch": torch.__version__, **versions}
        self.model = self.network = torch_networks.build(config, initial)
        self.optimizer: torch.optim.Optimizer = sgd(self.network, config)

    def batches(self, split: Arrays, indices: Iterable[np.ndarray]) -> Iterable[Any]:
        return DataLoader(Samples(split), batch_size=None, sampler=list(indices))

    def train(self, batch: Any, rate: float) -> np.ndarray:
        images, labels = batch
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad()
        logits = self._forward(self.model, images)
        loss = functional.cross_entropy(logits, labels, label_smoothing=self.config.label_smoothing)
        loss.backward()
        self.optimizer.step()
        return scores(labels, logits)

    def evaluate(self, batch: Any) -> np.ndarray:
        images, labels = batch
        self.network.eval()
        with torch.no_grad():
            result = scores(labels, self._forward(self.network, images))
        self.network.train()
        return result

    def _forward(self, model: nn.Module, images: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=self.config.precision == "bfloat16"):
            logits: Tensor = model(images)
        return logits.float()

    def sum(self, numbers: np.ndarray) -> np.ndarray:
        total = torch.from_numpy(numbers.copy())
        if self.world > 1:
            dist.all_reduce(total)
        return total.numpy()

    def average_statistics(self) -> None:
        statistics = [values for values in self.network.buffers() if values.is_floating_point()]
        if statistics:
            flat = torch.cat([values.flatten() for values in statistics]).double().numpy()
            mean = torch.from_numpy(self.sum(flat) / self.world)
            parts = mean.split([values.numel() for values in statistics])
            for values, part in zip(statistics, parts, strict=True):
                values.copy_(part.view_as(values))

    def weights(self) -> Weights:
        return torch_networks.read(self.network)


def sgd(network: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """Return PyTorch's optimizer, with weight decay of kernels alone; the rate is set before every step."""
    kernels, others = (
        [values for values in network.parameters() if (values.dim() > 1) == kernel] for kernel in (True, False)
    )
    groups = [{"params": kernels, "weight_decay": config.weight_decay}, {"params": others}]
    return torch.optim.SGD(groups, lr=0.0, momentum=config.momentum, nesterov=config.nesterov)


def scores(labels: Tensor, logits: Tensor) -> np.ndarray:
    """Return (summed loss, top-1 hits, top-5 hits, images)."""
    with torch.no_grad():
        loss = functional.cross_entropy(logits, labels, reduction="sum")
        hits = logits.topk(min(5, logits.shape[1])).indices == labels[:, None]
    return np.array([float(loss), float(hits[:, 0].sum()), float(hits.sum()), len(labels)])
