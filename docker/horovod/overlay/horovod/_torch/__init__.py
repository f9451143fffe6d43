"""Batch normalization over the batches of all ranks, for horovod.torch.SyncBatchNorm on CPUs."""

from typing import Any

import torch
from horovod.torch.mpi_ops import Sum, allreduce


def batch_norm(layer: Any, values: Any) -> Any:
    """Normalize `values` by mean and variance of all ranks' values, which become part of the layer's running ones.

    Numbers of 16 bits are added up in 32: Horovod sends no bfloat16, and sums of float16 overflow.
    """
    kept = values.dtype
    if kept in (torch.float16, torch.bfloat16):
        values = values.float()
    shape = (1, -1, *[1] * (values.dim() - 2))
    across = [dimension for dimension in range(values.dim()) if dimension != 1]
    count = values.new_tensor([values.numel() / values.size(1)])
    sums = allreduce(torch.cat([values.sum(across), count]), name="sync_batch_norm.sums", op=Sum)
    mean, count = sums[:-1] / sums[-1], sums[-1].detach()
    centered = values - mean.view(shape)
    variance = allreduce(centered.square().sum(across), name="sync_batch_norm.squares", op=Sum) / count
    if layer.training and layer.track_running_stats:
        _update(layer, mean.detach(), variance.detach() * count / (count - 1))
    normal = centered * torch.rsqrt(variance + layer.eps).view(shape)
    result = normal * layer.weight.view(shape) + layer.bias.view(shape) if layer.affine else normal
    return result.to(kept)


def _update(layer: Any, mean: Any, variance: Any) -> None:
    """Move the layer's running mean and variance, which have 16 bits in a model of 16 bits, towards these."""
    share = 1 / float(layer.num_batches_tracked) if layer.momentum is None else layer.momentum
    for running, new in ((layer.running_mean, mean), (layer.running_var, variance)):
        running.copy_(torch.lerp(running.to(new.dtype), new, share))
