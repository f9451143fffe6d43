"""Section `train` of cluster.yaml."""

from pathlib import Path

from pydantic import Field, model_validator

from orchestrator.config.section import MOST, Duration, Section
from orchestrator.schema import Compression, Engine, Goal, Precision, StopOrSkip


class Train(Section):
    """Settings of training. Keys left out come from the model's recipe."""

    model: str | None = Field(None, description="network to train; `orchestrator models` lists them")
    dataset: str | None = Field(None, description="data set to train on; `orchestrator datasets` lists them")
    data: Path | None = Field(
        None, description="directory of the data set; default: downloaded (mnist, fashion_mnist, cifar10)"
    )
    recipe: Path | None = Field(
        None, description="file with a recipe of your own, whose keys override the model's recipe; default: none"
    )
    epochs: int | None = Field(None, ge=1, le=MOST, description="passes over the training set; default: the recipe's")
    steps: int | None = Field(
        None, ge=1, le=MOST, description="stop after this many steps; default: at the end of the epochs"
    )
    until: Goal = Field(
        None,
        description="stop after the epoch that reaches this test accuracy (top1=0.75); default: after all epochs",
    )
    max_time: Duration = Field(
        None, gt=0, description="stop before this long has passed (90s, 15m, 2h); default: at the end of the epochs"
    )
    test_samples: int | None = Field(
        None,
        ge=1,
        le=MOST,
        description="evaluate only this many samples, the first of the test split; default: all of them",
    )
    batch_size: int | None = Field(
        None,
        ge=1,
        le=MOST,
        description="images per rank and backward pass; default: the recipe's, as memory and data allow",
    )
    learning_rate: float | None = Field(
        None,
        gt=0,
        description="learning rate for one batch, multiplied by the number of batches in a step; default: the recipe's",
    )
    image_size: int | None = Field(
        None, ge=8, le=1024, description="side of the input in pixels (imagenet, synthetic); default: the recipe's"
    )
    augment: bool | None = Field(
        None, description="crop and mirror training images at random (only engine ours); default: the recipe's"
    )
    engine: Engine = Field(
        "ours",
        description="program that trains: ours, or to compare with it horovod-tensorflow, horovod-torch, torch-ddp,"
        " ray-torch, tensorflow-multiworker, tensorflow-parameter-server or single",
    )
    seed: int = Field(1, ge=0, le=10**9, description="random seed of weights, order and augmentation")
    precision: Precision | None = Field(
        None,
        description="arithmetic of the layers: float32, bfloat16, float16 or auto (bfloat16 if all CPUs are at least"
        " 15 % faster with it; on GPUs by their generation); default: the recipe's",
    )
    xla: bool | None = Field(
        None,
        description="compile the forward and backward passes with XLA; default: on GPUs, if a rank trains on 100,000"
        " images or more",
    )
    backward_passes_per_step: int | None = Field(
        None,
        ge=1,
        le=10_000,
        description="batches whose gradients a rank averages before it sends them; default: the recipe's, or 1",
    )
    compression: Compression | None = Field(
        None,
        description="type in which gradients are sent: none (unchanged), fp16, bf16, or auto (bf16 if layers compute in"
        " it and it is at least 15 % faster); default: the recipe's, or auto",
    )
    hierarchical: bool | None = Field(
        None,
        description="average gradients in 16 bits within each node first, then between nodes, if each has several"
        " ranks; default: the recipe's; else only if that is measured to be at least 15 % faster",
    )
    fp16_allreduce: bool = Field(False, description="the same as compression: fp16, under Horovod's name")
    gradient_predivide_factor: float | None = Field(
        None, gt=0, description="divide gradients by this before they are added; default: the recipe's, or 1"
    )
    adasum: bool | None = Field(
        None, description="add gradients by Adasum (Maleki et al. 2020) instead of their mean; default: the recipe's"
    )
    checkpoint_every: Duration = Field(
        None,
        gt=0,
        description="write a checkpoint this often within an epoch too (10m, 1h); default: at the end of every epoch",
    )
    keep_checkpoints: int = Field(
        3, ge=1, le=1000, description="number of the newest checkpoints to keep, in addition to the best"
    )
    save_model: bool = Field(
        False,
        description="write the trained network as a TensorFlow SavedModel to output/model at the end of the run (only"
        " engine ours)",
    )
    on_bad_sample: StopOrSkip = Field(
        "stop", description="if a sample cannot be read: stop, or skip it, which the results list"
    )
    on_nan: StopOrSkip = Field("stop", description="if the loss is not a number: stop, or skip the update of that step")

    @model_validator(mode="after")
    def _one_compression(self) -> "Train":
        if self.fp16_allreduce and self.compression not in (None, "fp16"):
            raise ValueError(f"fp16_allreduce is compression fp16, and compression is {self.compression}: give one")
        return self
