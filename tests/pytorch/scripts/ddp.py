"""Data parallel training like PyTorch's tutorials on DDP: rank 0 prints the mean loss of every step."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def main() -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    images = torch.randn(256, 10)
    data = TensorDataset(images, images @ torch.arange(10.0).unsqueeze(1))
    sampler = DistributedSampler(data, shuffle=True, seed=1)
    loader = DataLoader(data, batch_size=16, sampler=sampler)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for batch, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(batch), labels)
            loss.backward()
            optimizer.step()
            total = loss.detach().clone()
            dist.all_reduce(total)
            if dist.get_rank() == 0:
                print(f"loss {total.item() / dist.get_world_size():.9g}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
