"""Train on all ranks with PyTorch's DistributedDataParallel. The numbered lines make the script distributed."""

import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

on_gpu = torch.cuda.is_available()
dist.init_process_group("nccl" if on_gpu else "gloo")  # 1. join the other ranks
rank = dist.get_rank()
device = torch.device(f"cuda:{os.environ['LOCAL_RANK']}" if on_gpu else "cpu")  # 2. use another GPU on each rank

torch.manual_seed(0)  # the same points on all ranks
points = torch.randn(20_000, 2)
labels = (points.norm(dim=1) > 1.2).long()  # outside or inside a circle
data = TensorDataset(points, labels)
sampler = DistributedSampler(data)  # 3. give each rank another share of the data
loader = DataLoader(data, batch_size=64, sampler=sampler)

network = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2)).to(device)
network = DistributedDataParallel(network)  # 4. average the gradients of all ranks
optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)

for epoch in range(3):
    sampler.set_epoch(epoch)  # shuffle the data again
    for inputs, targets in loader:
        loss = nn.functional.cross_entropy(network(inputs.to(device)), targets.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if rank == 0:  # 5. print and save on one rank only
        print(f"epoch {epoch + 1}: loss {loss.item():.3f}", flush=True)
if rank == 0:
    torch.save(network.module.state_dict(), Path(os.environ["ORCHESTRATOR_OUTPUT"], "network.pt"))
dist.destroy_process_group()
