"""Ring allreduce, written out: data parallel training whose gradients are summed by messages between neighbours.

    orchestrator run -- python ring.py

Each rank cuts its gradients into N pieces and sends one at a time to the rank on its right.
Reduce-scatter: after N - 1 messages each rank has one piece with the sum of all ranks.
Allgather: after N - 1 more messages each rank has all sums.
Each message has 1/N of the gradients, so a rank sends 2 (N - 1) / N times their bytes, however many ranks there are.
"""

import horovod.torch as hvd
import torch
import torch.distributed as dist
from common import Meter, flat, network, optimizer, options, require_equal
from digits import Digits
from torch import Tensor, nn


class Ring:
    """The rank's place between its neighbours."""

    def __init__(self) -> None:
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.right, self.left = (self.rank + 1) % self.ranks, (self.rank - 1) % self.ranks
        self.bytes = 0

    def exchange(self, piece: Tensor, space: Tensor) -> None:
        """Send ``piece`` to the right while the left neighbour's piece arrives in ``space``."""
        requests = [dist.isend(piece, self.right), dist.irecv(space, self.left)]
        for request in requests:
            request.wait()
        self.bytes += piece.numel() * piece.element_size()

    def allreduce(self, values: Tensor, show: bool = False) -> None:
        """Replace ``values`` by their sum over all ranks; ``show`` prints every step."""
        pieces = values.tensor_split(self.ranks)  # parts of the same memory: writing to them writes to values
        for step in range(self.ranks - 1):
            send, receive = (self.rank - step) % self.ranks, (self.rank - step - 1) % self.ranks
            arrived = torch.empty_like(pieces[receive])
            self.exchange(pieces[send], arrived)
            pieces[receive].add_(arrived)
            self._show(show, f"reduce-scatter {step + 1}", send, f"added piece {receive}")
        for step in range(self.ranks - 1):
            send, receive = (self.rank - step + 1) % self.ranks, (self.rank - step) % self.ranks
            self.exchange(pieces[send], pieces[receive])
            self._show(show, f"allgather {step + 1}", send, f"took the sum of piece {receive}")

    def _show(self, show: bool, step: str, send: int, done: str) -> None:
        if show:
            print(f"{step}: rank {self.rank} sent piece {send} to rank {self.right}, {done} of rank {self.left}",
                  flush=True)  # fmt: skip


def main() -> None:
    """Train, and check that the ring's sum is Horovod's."""
    args = options()
    hvd.init()
    dist.init_process_group("gloo")
    ring, data, model = Ring(), Digits(), network()
    sgd = optimizer(model.parameters())

    for step, (images, labels) in enumerate(data.batches(args.epochs)):
        my_images, my_labels = images.chunk(ring.ranks)[ring.rank], labels.chunk(ring.ranks)[ring.rank]
        sgd.zero_grad()
        nn.functional.cross_entropy(model(my_images), my_labels).backward()
        gradients = flat([weights.grad for weights in model.parameters() if weights.grad is not None])
        expected = hvd.allreduce(gradients, op=hvd.Sum) if step == 0 else None
        ring.allreduce(gradients, show=step == 0)
        if expected is not None:
            require_equal("sum of the ring = hvd.allreduce", gradients, expected)
        # The sum comes in one vector, and goes back into the layers as the mean.
        sizes = [weights.numel() for weights in model.parameters()]
        for weights, mean in zip(model.parameters(), (gradients / ring.ranks).split(sizes), strict=True):
            weights.grad = mean.view_as(weights)
        sgd.step()
        if step == 0:
            meter = Meter()  # the first step, with its check, does not count
    steps = args.epochs * data.steps
    meter.report(steps - 1)

    expected_bytes = 2 * (ring.ranks - 1) / ring.ranks * gradients.numel() * gradients.element_size()
    print(f"rank {ring.rank}: {ring.bytes / steps / 1e6:.2f} MB in messages per step, 2 (N - 1) / N of the gradients "
          f"are {expected_bytes / 1e6:.2f} MB", flush=True)  # fmt: skip
    if ring.rank == 0:
        data.show_test(model)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
