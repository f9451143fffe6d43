"""Model parallel: the network is cut into as many parts as there are ranks, and each batch runs through them in pieces.

    orchestrator run -- python pipeline.py --micro-batches 8

A rank waits for the rank before it (forward) and for the rank behind it (backward). With one piece only one rank works
at a time. With M pieces (micro-batches), all ranks work but for a bubble of (N - 1) / (M + N - 1) of the time.
What travels are activations and their gradients at each cut: bytes grow with the batch, not with the network.
"""

import itertools

import torch
import torch.distributed as dist
from common import BATCH, Meter, flat, network, optimizer, options, require_equal, whole_gradients
from digits import Digits
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

CPU = torch.device("cpu")


def cut(whole: nn.Sequential, parts: int) -> list[nn.Sequential]:
    """Cut the network into consecutive ``parts``, each with as many of its five dense layers as fit."""
    layers = (len(whole) + 1) // 2
    if parts > layers:
        raise SystemExit(f"{parts} ranks, but the network has {layers} dense layers: start it with --np {layers}")
    starts = [2 * (layers * part // parts) for part in range(parts)] + [len(whole)]
    return [whole[begin:end] for begin, end in itertools.pairwise(starts)]


def main() -> None:
    """Train, and check that the parts together compute what the uncut network would."""
    args = options(("micro-batches", 8))
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    data, whole = Digits(), network()  # a network that fits into one machine, so that it can be compared
    parts = cut(whole, ranks)
    mine = parts[rank]
    sgd = optimizer(mine.parameters())
    # PyTorch's GPipe: forward of all micro-batches, then backward of all. The last rank computes the loss.
    stage = PipelineStage(mine, rank, ranks, CPU)
    schedule = ScheduleGPipe(stage, args.micro_batches, loss_fn=nn.functional.cross_entropy)

    for step, (images, labels) in enumerate(data.batches(args.epochs, shares=1)):
        expected = whole_gradients(whole, images, labels) if step == 0 else []
        sgd.zero_grad()
        # The first rank feeds images in, the last one compares what comes out with the labels.
        inputs = (images,) if rank == 0 else ()
        schedule.step(*inputs, target=labels if rank == ranks - 1 else None)
        if step == 0:
            ours = dict(zip(whole.parameters(), expected, strict=True))
            gradients = flat([weights.grad for weights in mine.parameters() if weights.grad is not None])
            require_equal(f"gradients of part {rank} = those of the uncut network", gradients,
                          flat([ours[weights] for weights in mine.parameters()]))  # fmt: skip
        sgd.step()
        if step == 0:
            meter = Meter()  # the first step, with its check, does not count
    meter.report(args.epochs * data.steps - 1)

    bubble = (ranks - 1) / (args.micro_batches + ranks - 1)
    if rank == 0:
        print(f"{ranks} parts, micro-batches of {BATCH // args.micro_batches} images: "
              f"bubble of {bubble:.0%} if all parts take the same time", flush=True)  # fmt: skip
    # For the test, each part goes from the rank that trained it to all others.
    for owner, part in enumerate(parts):
        for weights in part.parameters():
            dist.broadcast(weights.data, src=owner)
    if rank == 0:
        data.show_test(whole)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
