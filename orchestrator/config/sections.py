"""Sections of cluster.yaml that do not depend on a provider, and the base class of all sections."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from orchestrator.schema import Compression, Engine, Goal, Precision, StopOrSkip

NAME = re.compile(r"[a-z]([a-z0-9-]{0,28}[a-z0-9])?")
NAME_RULE = "1 to 30 of a-z, 0-9 and -, beginning with a letter and not ending with -"
MAX_NODES = 100


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
        description="where the driver comes from: auto, none, image (it is there), distro, cuda-repository or vgpu",
    )
    architecture: str | None = Field(
        None, description="architecture or model of the GPUs (ampere, a100); default: from the flavor or accelerator"
    )
    vgpu_installer: Path | None = Field(None, description="NVIDIA's licensed guest driver (a .run file); for vgpu")
    vgpu_token: Path | None = Field(None, description="client configuration token of the licence server; for vgpu")


class Launch(Section):
    """How runs are started."""

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
        description="what carries Horovod's messages: gloo, mpi or auto (of train and run the faster one on these"
        " nodes, else gloo)",
    )
    np: int | None = Field(None, ge=1, description="ranks of a run; default: every slot of the cluster")
    network_interface: str | None = Field(
        None, description="network interface for Horovod's traffic; default: the one with the private address"
    )
    cycle_time: float | None = Field(
        None,
        ge=0,
        description="milliseconds between two rounds of Horovod's background thread; default: the recipe's, or of train"
        " over Gloo measured, else 5, or tuned",
    )
    fusion_threshold: int | None = Field(
        None,
        ge=0,
        description="MiB in one message of Horovod's; default: the recipe's, or 32 of gradients, 128 of your own"
        " scripts, or tuned",
    )
    autotune: bool | None = Field(
        None,
        description="let Horovod try out what is not set of these two, which autotune.csv then says; default: the"
        " recipe's, or no",
    )


class Train(Section):
    """What is trained. Keys left out come from the model's recipe."""

    model: str | None = Field(None, description="what to train: one of `orchestrator models`")
    dataset: str | None = Field(None, description="what to train on: one of `orchestrator datasets`")
    data: Path | None = Field(
        None, description="directory of the data set; default: downloaded where its site is reachable"
    )
    recipe: Path | None = Field(
        None, description="file with a recipe of your own, whose keys win over the model's; default: the model's"
    )
    epochs: int | None = Field(None, ge=1, description="passes over the training set; default: the recipe's")
    steps: int | None = Field(None, ge=1, description="stop after this many steps; default: at the end of the epochs")
    until: Goal = Field(
        None,
        description="stop after the epoch whose evaluation reaches this (top1=0.75); default: at the end of the epochs",
    )
    max_time: Duration = Field(
        None, gt=0, description="stop before this long has passed (90s, 15m, 2h); default: at the end of the epochs"
    )
    batch_size: int | None = Field(
        None, ge=1, description="images per rank and backward pass; default: the recipe's, as memory and data allow"
    )
    learning_rate: float | None = Field(
        None,
        gt=0,
        description="learning rate of one batch, multiplied by their number in a step; default: the recipe's",
    )
    image_size: int | None = Field(
        None, ge=8, le=1024, description="side of the input in pixels (imagenet, synthetic); default: the recipe's"
    )
    augment: bool | None = Field(
        None, description="crop and mirror training images at random; default: the recipe's, for engine ours alone"
    )
    engine: Engine = Field(
        "ours",
        description="program that trains: ours, or to compare: horovod-tensorflow, horovod-torch, torch-ddp, ray-torch,"
        " tensorflow-multiworker, tensorflow-parameter-server, single",
    )
    seed: int = Field(1, ge=0, le=10**9, description="random seed of weights, order and augmentation")
    precision: Precision | None = Field(
        None,
        description="arithmetic of the layers: float32, bfloat16, float16 or auto (the fastest); default: the recipe's",
    )
    xla: bool = Field(False, description="compile the passes forward and backward by XLA")
    backward_passes_per_step: int | None = Field(
        None,
        ge=1,
        le=10_000,
        description="batches that a rank averages the gradients of before it sends them; default: the recipe's, or 1",
    )
    compression: Compression | None = Field(
        None,
        description="what gradients travel as: none, fp16, bf16, or auto (bf16 where layers compute in it and the link"
        " gains by it); default: the recipe's, or auto",
    )
    fp16_allreduce: bool = Field(False, description="an older name of compression: fp16")
    gradient_predivide_factor: float | None = Field(
        None, gt=0, description="what gradients are divided by before they are added; default: the recipe's, or 1"
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
        3, ge=1, le=1000, description="how many of the newest checkpoints are kept, beside the best"
    )
    on_bad_sample: StopOrSkip = Field(
        "stop", description="what a run does about samples that cannot be read: stop, or skip them by name"
    )
    on_nan: StopOrSkip = Field(
        "stop", description="what a run does about a loss that is not a number: stop, or skip the step's update"
    )

    @model_validator(mode="after")
    def _one_compression(self) -> "Train":
        if self.fp16_allreduce and self.compression not in (None, "fp16"):
            raise ValueError(f"fp16_allreduce is compression fp16, and compression is {self.compression}: give one")
        return self
