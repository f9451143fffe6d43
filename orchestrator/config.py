"""cluster.yaml and flags: one model, every problem reported at once, one place for every default."""

import difflib
import re
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from orchestrator.errors import ConfigError, StateError
from orchestrator.schema import Precision

FILE = Path("cluster.yaml")
DEFAULT_NAME = "default"
NAME = re.compile(r"[a-z]([a-z0-9-]{0,28}[a-z0-9])?")
NAME_RULE = "1 to 30 of a-z, 0-9 and -, beginning with a letter and not ending with -"
MAX_LOCAL_NODES = 100
LEAST_CPUS, LEAST_MEMORY = 0.01, 0.5  # cores, GiB


def seconds(text: Any) -> Any:
    """Seconds of "90", "90s", "15m" or "2h"; anything else unchanged, for the type check to refuse."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", str(text).strip())
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]] if match else text


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _no_number(cls, value: Any, field: ValidationInfo) -> Any:
        """Python takes yes and no for 1 and 0."""
        if isinstance(value, bool) and cls.model_fields[field.field_name or ""].annotation is not bool:
            raise ValueError(f"{str(value).lower()} is neither a number nor a name")
        return value


class Local(_Section):
    """Nodes that are containers on this machine."""

    cpus: float | None = Field(
        None, ge=LEAST_CPUS, description="cores per node; default: this machine's, shared evenly"
    )
    memory: float | None = Field(
        None, ge=LEAST_MEMORY, description="GiB per node; default: 90 % of this machine's, shared evenly"
    )
    subnet: IPv4Network | None = Field(None, description="network of the nodes; default: the first free one")
    base_image: str = Field(
        "debian:12-slim", min_length=1, description="image that the trainer and node images are built on"
    )

    @field_validator("subnet")
    @classmethod
    def _roomy(cls, subnet: IPv4Network | None) -> IPv4Network | None:
        if subnet and subnet.num_addresses < MAX_LOCAL_NODES + 16:
            raise ValueError("needs at least a /25")
        return subnet


class Launch(_Section):
    """How runs are started."""

    controller: Literal["gloo", "mpi"] = Field("gloo", description="what carries Horovod's messages: gloo or mpi")
    np: int | None = Field(None, ge=1, description="ranks of a run; default: every slot of the cluster")
    network_interface: str | None = Field(
        None, description="network interface for Horovod's traffic; default: the one with the private address"
    )
    cycle_time: float = Field(5.0, ge=0, description="milliseconds between two rounds of Horovod's background thread")


class Train(_Section):
    """What is trained. Keys left out come from the model's recipe."""

    model: str | None = Field(None, description="what to train: resnet20, resnet50 or resnet101")
    dataset: str | None = Field(None, description="what to train on: synthetic, mnist, cifar10 or imagenet")
    data: Path | None = Field(
        None, description="directory of the data set; default: downloaded where its site is reachable"
    )
    epochs: int | None = Field(None, ge=1, description="passes over the training set; default: the recipe's")
    steps: int | None = Field(None, ge=1, description="stop after this many steps; default: at the end of the epochs")
    max_time: Annotated[float | None, BeforeValidator(lambda v: v if v is None else seconds(v))] = Field(
        None, gt=0, description="stop after this long (90s, 15m, 2h); default: at the end of the epochs"
    )
    batch_size: int | None = Field(
        None, ge=1, description="images per rank and step; default: the recipe's, as far as memory and data go"
    )
    learning_rate: float | None = Field(
        None, gt=0, description="learning rate of one rank, multiplied by the number of ranks; default: the recipe's"
    )
    image_size: int | None = Field(
        None, ge=8, le=1024, description="side of the input in pixels (imagenet, synthetic); default: the recipe's"
    )
    seed: int = Field(1, ge=0, le=10**9, description="random seed of weights, order and augmentation")
    precision: Precision = Field("float32", description="arithmetic of the layers: float32, bfloat16 or float16")
    fp16_allreduce: bool = Field(False, description="send gradients as 16-bit floats")


class Config(_Section):
    """A cluster and what runs on it."""

    name: str = Field(DEFAULT_NAME, description="name of the cluster; several can stand side by side")
    provider: Literal["local"] = Field("local", description="where nodes come from: local")
    nodes: int = Field(2, ge=1, le=MAX_LOCAL_NODES, description="machines, the head among them")
    slots: int | None = Field(None, ge=1, le=64, description="ranks per node; default: one per GPU, or one")
    local: Local = Local()
    launch: Launch = Launch()
    train: Train = Train()

    @field_validator("name")
    @classmethod
    def _hostname(cls, name: str) -> str:
        if not NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not usable: {NAME_RULE}")
        return name


def load(path: Path | None, flags: Mapping[str, Any], base: Mapping[str, Any] | None = None) -> Config:
    """The Config of ``path`` (or of ``base`` where there is no file), overridden by ``flags`` ("local.cpus": 2).

    Raises ConfigError with every problem, each as ``file: path.to.key: what is wrong``.
    """
    values = _read(path) if path else dict(base or {})
    values = {key: value for key, value in values.items() if value is not None or not _is_section(key)}
    for key, value in flags.items():
        if value is not None:
            *sections, last = key.split(".")
            target = values
            for section in sections:
                inner = target.get(section)
                target[section] = target = dict(inner) if isinstance(inner, Mapping) else {}
            target[last] = value
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        given = {key for key, value in flags.items() if value is not None}
        problems = [_problem(e["loc"], e["type"], e["msg"], e["input"], path, given) for e in error.errors()]
        raise ConfigError(problems) from None


def stored(values: Mapping[str, Any]) -> Config:
    """The Config that a state file holds: keys that this version does not know are left out.

    Raises StateError where the rest cannot be used.
    """
    sections = {
        key: _known(Config.model_fields[key].annotation, value) for key, value in _known(Config, values).items()
    }
    try:
        return Config.model_validate(sections)
    except ValidationError as error:
        problems = "; ".join(_problem(e["loc"], e["type"], e["msg"], e["input"], None, set()) for e in error.errors())
        raise StateError(f"the recorded configuration cannot be used: {problems}", "name a cluster.yaml") from error


def _known(model: Any, values: Any) -> Any:
    if not (isinstance(values, Mapping) and isinstance(model, type) and issubclass(model, BaseModel)):
        return values
    return {key: value for key, value in values.items() if key in model.model_fields}


def name_in(path: Path) -> str | None:
    """The cluster's name in ``path``, whatever else is wrong there."""
    name = _read(path).get("name")
    return None if name is None else str(name)


def _read(path: Path) -> dict[str, Any]:
    try:
        values = yaml.safe_load(path.read_text())
    except OSError as error:
        raise ConfigError([f"{path}: {error.strerror}"], "`orchestrator init` writes one") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError([f"{path}: not YAML: {' '.join(str(error).split())}"]) from None
    if values is not None and not isinstance(values, dict):
        raise ConfigError([f"{path}: expected keys and values, found {type(values).__name__}"])
    return values or {}


def _problem(
    location: tuple[int | str, ...], kind: str, message: str, value: Any, path: Path | None, flags: set[str]
) -> str:
    key = ".".join(map(str, location))
    place = f"{path}: {key}" if path and key not in flags else key
    if kind == "extra_forbidden":
        known = [name for name, _, _ in every_key()]
        return f"{place}: unknown key{nearest(key, known)}"
    detail = message.removeprefix("Value error, ").replace("Input should be", "must be")
    return f"{place}: {detail}" if kind == "value_error" else f"{place}: {value!r}: {detail}"


def nearest(word: str, known: list[str]) -> str:
    """A phrase ", did you mean X?" where something in ``known`` is near ``word``, else nothing."""
    match = difflib.get_close_matches(word, known, n=1)
    return f", did you mean {match[0]}?" if match else ""


def every_key(model: type[BaseModel] = Config, prefix: str = "") -> Iterator[tuple[str, str, Any]]:
    """(path, description, default) of every key; sections come before their keys, with None as default."""
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield f"{prefix}{name}", (field.annotation.__doc__ or "").strip(), None
            yield from every_key(field.annotation, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", field.description or "", field.default


def template() -> str:
    """A cluster.yaml with every key, its meaning and its default, all commented out but the first few."""
    lines = ["# Every key with its default. Delete what you do not need; flags override what stands here."]
    for path, description, default in every_key():
        name, depth = path.rpartition(".")[2], path.count(".")
        indent = "  " * depth
        if default is None and _is_section(path):
            lines += ["", f"{indent}# {description}", f"{indent}{name}:"]
        else:
            shown = "" if default is None else f" {yaml.safe_dump(default).splitlines()[0]}"
            mark = "" if default is not None else "# "
            lines.append(f"{indent}{mark}{name}:{shown}".ljust(36) + f"# {description}")
    return "\n".join(lines) + "\n"


def _is_section(path: str) -> bool:
    field = Config.model_fields.get(path)
    return bool(field and isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel))
