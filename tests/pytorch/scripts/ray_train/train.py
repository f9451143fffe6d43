"""Data parallel training like Ray Train's documentation; with --fail, worker 1 raises."""

import argparse
import os
import time

import ray.train
import torch
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_data_loader, prepare_model
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train(config: dict[str, object]) -> None:
    rank = ray.train.get_context().get_world_rank()
    if config["fail"] and rank == 1:
        raise ValueError("the moon is in the wrong house")
    torch.manual_seed(0)
    images = torch.randn(256, 10)
    data = TensorDataset(images, images @ torch.arange(10.0).unsqueeze(1))
    loader = prepare_data_loader(DataLoader(data, batch_size=16, shuffle=True))
    model = prepare_model(nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for batch, labels in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(batch), labels).backward()
        optimizer.step()
    print(f"worker {rank} on {os.uname().nodename} with {os.environ.get('TOKEN')}", flush=True)
    if config["wait"]:
        time.sleep(600)


parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=2)
parser.add_argument("--fail", action="store_true")
parser.add_argument("--wait", action="store_true")
options = vars(parser.parse_args())
scaling = ScalingConfig(num_workers=options["workers"], placement_strategy="SPREAD")
run = RunConfig(storage_path=os.environ["ORCHESTRATOR_OUTPUT"])
TorchTrainer(train, train_loop_config=options, scaling_config=scaling, run_config=run).fit()
print("trained by Ray")
