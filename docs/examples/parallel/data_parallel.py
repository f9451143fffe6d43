"""Data parallel: every rank has the whole network and its own share of each batch; Horovod averages the gradients.

    orchestrator run -- python data_parallel.py

A rank sends its gradients once per step, as many bytes as the network has weights, however large the batch is.
"""

import horovod.torch as hvd
from common import Meter, flat, network, optimizer, options, require_equal, whole_gradients
from digits import Digits
from torch import nn


def main() -> None:
    """Train, and check that ranks together compute what one process would."""
    args = options()
    hvd.init()
    data, model = Digits(), network()
    # Sums gradients while backward() still computes those of earlier layers, and step() waits for the rest.
    sgd = hvd.DistributedOptimizer(optimizer(model.parameters()), named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)

    for step, (images, labels) in enumerate(data.batches(args.epochs)):
        # 1. This rank's share of the batch: no image is computed twice.
        my_images, my_labels = images.chunk(hvd.size())[hvd.rank()], labels.chunk(hvd.size())[hvd.rank()]
        expected = whole_gradients(model, images, labels) if step == 0 else []
        # 2. Gradients of the share, and their mean over all ranks.
        sgd.zero_grad()
        nn.functional.cross_entropy(model(my_images), my_labels).backward()
        sgd.synchronize()
        if step == 0:
            gradients = flat([weights.grad for weights in model.parameters() if weights.grad is not None])
            require_equal("mean of the ranks' gradients = gradients of the whole batch", gradients, flat(expected))
        # 3. Every rank makes the same update, so weights stay the same.
        with sgd.skip_synchronize():
            sgd.step()
        if step == 0:
            meter = Meter()  # the first step, with its check, does not count
    meter.report(args.epochs * data.steps - 1)

    weights = flat(list(model.parameters()))
    require_equal("weights of this rank = weights of rank 0", weights, hvd.broadcast(weights, root_rank=0))
    if hvd.rank() == 0:
        data.show_test(model)


if __name__ == "__main__":
    main()
