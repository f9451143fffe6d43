"""Sections of cluster.yaml that do not depend on a provider, and the base class of all sections."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from orchestrator.schema import Compression, Engine, Goal, Precision, StopOrSkip

NAME = re.compile(r"[a-z]([a-z0-9-]{0,28}[a-z0-9])?")
NAME_RULE = "1 to 30 of a-z, 0-9 and -, beginning with a letter and not ending with -"
MAX_NODES, MAX_SLOTS = 100, 64
MAX_CYCLE = 1000  # ms, for which messages of Horovod wait; a run with much more stands still


def seconds(text: Any) -> Any:
    """Convert "90", "90s", "15m" or "2h" to seconds. Return other values unchanged, for the type check to refuse."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", str(text).strip())
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]] if match else text


Duration = Annotated[float | None, BeforeValidator(lambda v: v if v is None else seconds(v))]


class Section(BaseModel):
    """Section of cluster.yaml. Unknown keys are refused, and so are booleans where a number or a name is expected."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _no_number(cls, value: Any, field: ValidationInfo) -> Any:
        """Refuse yes and no in other fields than booleans: Python would take them for 1 and 0."""
        annotation = cls.model_fields[field.field_name or ""].annotation
        if isinstance(value, bool) and bool not in (annotation, *get_args(annotation)):
            raise ValueError(f"{str(value).lower()} is neither a number nor a name")
        return value


class Gpu(Section):
    """NVIDIA's driver on nodes with GPUs."""

    driver: Literal["auto", "none", "image", "distro", "cuda-repository", "vgpu"] = Field(
        "auto",
        description="where the driver comes from: auto, none, image (has it already), distro, cuda-repository or vgpu",
    )
    architecture: str | None = Field(
        None, description="architecture or model of the GPUs (ampere, a100); default: from the flavor or accelerator"
    )
    vgpu_installer: Path | None = Field(None, description="NVIDIA's licensed guest driver (a .run file); for vgpu")
    vgpu_token: Path | None = Field(None, description="client configuration token of the licence server; for vgpu")


class Launch(Section):
    """Settings with which runs are started."""

    launcher: Literal["auto", "horovod", "torchrun", "mpirun", "ray", "tensorflow", "plain"] = Field(
        "auto",
        description="what starts the ranks of `orchestrator run`: horovod, torchrun, mpirun, ray, tensorflow, plain or"
        " auto (by what the script imports)",
    )
    parameter_servers: int | None = Field(
        None, ge=1, le=64, description="parameter servers of tf.distribute; default: none, all ranks are workers"
    )

    controller: Literal["auto", "gloo", "mpi"] = Field(
        "auto",
        description="library that carries Horovod's messages: gloo, mpi or auto (for train and run the faster one on"
        " these nodes, else gloo)",
    )
    np: int | None = Field(None, ge=1, description="ranks of a run; default: every slot of the cluster")
    network_interface: str | None = Field(
        None, description="network interface for Horovod's traffic; default: the one with the private address"
    )
    cycle_time: float | None = Field(
        None,
        ge=0,
        le=MAX_CYCLE,
        description="milliseconds between two rounds of Horovod's background thread; default: the recipe's; else"
        " measured (train over Gloo) or 5; with autotune Horovod's choice",
    )
    fusion_threshold: int | None = Field(
        None,
        ge=0,
        description="largest message of Horovod, in MiB; default: the recipe's; else 32 (train) or 128 (your own"
        " scripts); with autotune Horovod's choice",
    )
    autotune: bool | None = Field(
        None,
        description="let Horovod try values of cycle_time and fusion_threshold, unless they are set, and write them to"
        " autotune.csv; default: the recipe's, or no",
    )


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
    epochs: int | None = Field(None, ge=1, description="passes over the training set; default: the recipe's")
    steps: int | None = Field(None, ge=1, description="stop after this many steps; default: at the end of the epochs")
    until: Goal = Field(
        None,
        description="stop after the epoch that reaches this test accuracy (top1=0.75); default: after all epochs",
    )
    max_time: Duration = Field(
        None, gt=0, description="stop before this long has passed (90s, 15m, 2h); default: at the end of the epochs"
    )
    test_samples: int | None = Field(
        None, ge=1, description="evaluate only this many samples, the first of the test split; default: all of them"
    )
    batch_size: int | None = Field(
        None, ge=1, description="images per rank and backward pass; default: the recipe's, as memory and data allow"
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
        description="arithmetic of the layers: float32, bfloat16, float16 or auto (the fastest); default: the recipe's",
    )
    xla: bool = Field(False, description="compile the forward and backward passes with XLA")
    backward_passes_per_step: int | None = Field(
        None,
        ge=1,
        le=10_000,
        description="batches whose gradients a rank averages before it sends them; default: the recipe's, or 1",
    )
    compression: Compression | None = Field(
        None,
        description="type in which gradients are sent: none (unchanged), fp16, bf16, or auto (bf16 if layers compute in"
        " it and it is faster); default: the recipe's, or auto",
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
    on_bad_sample: StopOrSkip = Field(
        "stop", description="if a sample cannot be read: stop, or skip it, which the results list"
    )
    on_nan: StopOrSkip = Field("stop", description="if the loss is not a number: stop, or skip the update of that step")

    @model_validator(mode="after")
    def _one_compression(self) -> "Train":
        if self.fp16_allreduce and self.compression not in (None, "fp16"):
            raise ValueError(f"fp16_allreduce is compression fp16, and compression is {self.compression}: give one")
        return self
