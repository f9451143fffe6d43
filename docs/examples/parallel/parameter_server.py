"""Parameter server: workers send gradients to one process, which updates the weights and sends them back.

    orchestrator run -- python parameter_server.py
    orchestrator run -- python parameter_server.py --asynchronous 1

Every rank is a worker; rank 0 is also the server, and calls itself without the network. The server receives the
gradients and sends the weights of all others, so its link carries 2 (N - 1) times the network's bytes in each step.
Synchronous: the server waits for all workers and applies the mean, so the result is that of data parallel training.
Asynchronous: it applies each worker's gradients as they come. No worker waits, but gradients are stale: they
were computed for weights that other workers have changed meanwhile.
"""

import os
import threading
import warnings

from common import LEARNING_RATE, Meter, flat, network, optimizer, options, require_equal, whole_gradients
from digits import Digits
from torch import Tensor
from torch.distributed import rpc
from torch.futures import Future

warnings.filterwarnings("ignore", "You are using a Backend")  # PyTorch's own module of RPC does so
SERVER = "rank0"
RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


class Server:
    """Weights, and the gradients that have come for the next update."""

    def __init__(self, asynchronous: bool) -> None:
        self.model = network()
        self.sgd = optimizer(self.model.parameters())
        self.wanted = 1 if asynchronous else RANKS  # gradients of an update
        self.received: list[list[Tensor]] = []
        self.answer: Future[list[Tensor]] = Future()
        self.updates, self.staleness = 0, 0
        self.lock = threading.Lock()  # requests of workers come in threads of their own

    def push(self, gradients: list[Tensor], version: int) -> Future[list[Tensor]]:
        """Take a worker's gradients for the weights of ``version``; answer with new weights once they are updated."""
        with self.lock:
            answer = self.answer
            self.received.append(gradients)
            self.staleness += self.updates - version
            if len(self.received) == self.wanted:
                self._update()
            return answer

    def _update(self) -> None:
        for weights, *gradients in zip(self.model.parameters(), *self.received, strict=True):
            weights.grad = sum(gradients[1:], gradients[0]) / self.wanted
        self.sgd.step()
        self.updates += 1
        answer, self.answer, self.received = self.answer, Future(), []
        answer.set_result((self.updates, [weights.detach().clone() for weights in self.model.parameters()]))


server: Server  # in the process of rank 0


@rpc.functions.async_execution  # the answer is sent when the Future has its value, and no thread waits for that
def push(gradients: list[Tensor], version: int) -> Future[list[Tensor]]:
    """Call the server; workers name this function, and it runs in the process of rank 0."""
    return server.push(gradients, version)


def main() -> None:
    """Train, and check that the server made the updates that it should."""
    global server  # noqa: PLW0603  the function that other ranks call needs it
    args = options(("asynchronous", 0))
    if RANK == 0:
        server = Server(bool(args.asynchronous))
    rpc.init_rpc(f"rank{RANK}", rank=RANK, world_size=RANKS)
    data, model, version = Digits(), network(), 0

    for step, (images, labels) in enumerate(data.batches(args.epochs)):
        before = flat(list(model.parameters()))
        gradients = whole_gradients(model, images.chunk(RANKS)[RANK], labels.chunk(RANKS)[RANK])
        expected = flat(whole_gradients(model, images, labels)) if step == 0 else before
        version, weights = rpc.rpc_sync(SERVER, push, args=(gradients, version))
        for mine, new in zip(model.parameters(), weights, strict=True):
            mine.data = new
        if step == 0 and not args.asynchronous:
            moved = (before - flat(weights)) / LEARNING_RATE
            what = "first update of the server = gradients of the whole batch"
            require_equal(what, moved, expected, rounding=1e-4)  # a small difference of large weights
        if step == 0:
            meter = Meter()  # the first step, with its check, does not count
    meter.report(args.epochs * data.steps - 1)
    finish(args.epochs * data.steps * RANKS, data)


def finish(pushes: int, data: Digits) -> None:
    """Wait for all workers; the server checks that it used all their gradients."""
    rpc.shutdown()  # waits for all workers
    if RANK == 0:
        if server.updates * server.wanted != pushes:
            raise SystemExit(f"check failed: {server.updates} updates for {pushes} gradients")
        print(f"check: {server.updates} updates for {pushes} gradients, each {server.staleness / pushes:.2f} updates "
              "old in the mean", flush=True)  # fmt: skip
        data.show_test(server.model)


if __name__ == "__main__":
    main()
