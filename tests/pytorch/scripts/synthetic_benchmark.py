"""Train a network on random images with Horovod, written like a user's script, and print its speed."""

import argparse
import timeit

import horovod.torch as hvd
import torch
from torch.nn import functional
from torchvision import models

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="resnet18")
parser.add_argument("--batch-size", type=int, default=4)
parser.add_argument("--image-size", type=int, default=64)
parser.add_argument("--iterations", type=int, default=4)
parser.add_argument("--fp16-allreduce", action="store_true")
args = parser.parse_args()

hvd.init()
torch.manual_seed(hvd.rank())
model = getattr(models, args.model)(num_classes=10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * hvd.size())
compression = hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), compression=compression)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
data = torch.randn(args.batch_size, 3, args.image_size, args.image_size)
target = torch.randint(10, (args.batch_size,))


def step() -> None:
    optimizer.zero_grad()
    functional.cross_entropy(model(data), target).backward()
    optimizer.step()


step()
seconds = timeit.timeit(step, number=args.iterations)
total = sum(float(parameter.detach().double().sum()) for parameter in model.parameters())
totals = hvd.allgather_object(total)
assert len(set(totals)) == 1, totals
images = args.iterations * args.batch_size * hvd.size() / seconds
if hvd.rank() == 0:
    print(f"{args.model}: {images:.1f} images per second on {hvd.size()} ranks, weights of all ranks are equal")
