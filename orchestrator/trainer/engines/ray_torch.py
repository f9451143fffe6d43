"""Ray Train with PyTorch, as Ray's page "Get Started with Distributed Training using PyTorch".

This program is started once. Ray starts a worker per rank, in each of which ``prepare_model`` wraps the network in
PyTorch's DistributedDataParallel.
"""

import sys
from pathlib import Path

import ray
import ray.train
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model

from orchestrator import launch_layout
from orchestrator.trainer.engines import engine_loop, step_inputs, torch_engine, weight_files


def train(settings: dict[str, str]) -> None:
    run_directory = Path(settings["run_directory"])
    config = step_inputs.read_config(run_directory)
    context = ray.train.get_context()
    rank, world = context.get_world_rank(), context.get_world_size()
    course = step_inputs.load(config, rank, world)
    initial = weight_files.initial(run_directory, rank)
    engine = torch_engine.TorchEngine(config, initial, rank, world, ray=ray.__version__)
    engine.model = prepare_model(engine.network)
    engine_loop.run(run_directory, course, engine)


def main(run_directory: Path) -> None:
    """Start a worker per slot of the run's hosts, each with the run's threads."""
    places = launch_layout.read(run_directory)
    scaling = ScalingConfig(
        num_workers=sum(places.slots.values()),
        placement_strategy="SPREAD",
        resources_per_worker={"CPU": places.threads},
    )
    once = {"env_vars": {"RAY_TRAIN_ENABLE_PRINT_PATCH": "0"}}  # else each line is in the log twice
    storage = RunConfig(storage_path=str(run_directory / "ray"), worker_runtime_env=once)
    settings = {"run_directory": str(run_directory)}
    TorchTrainer(train, train_loop_config=settings, scaling_config=scaling, run_config=storage).fit()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
