"""cluster.yaml and flags: one model, every problem reported at once, one place for every default."""

import difflib
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator
from pydantic_core import to_jsonable_python

from orchestrator.config.monitoring import Monitoring, Receiver
from orchestrator.config.providers import LEAST_CPUS, LEAST_MEMORY, Gcp, Host, Hosts, Local, OpenStack
from orchestrator.config.sections import MAX_NODES, NAME, NAME_RULE, Gpu, Launch, Section, Train
from orchestrator.errors import ConfigError, StateError

__all__ = [
    "LEAST_CPUS",
    "LEAST_MEMORY",
    "NAME",
    "NAME_RULE",
    "Config",
    "Host",
    "Launch",
    "Local",
    "Monitoring",
    "Receiver",
    "Train",
]

FILE = Path("cluster.yaml")
DEFAULT_NAME = "default"
NEEDED = {"openstack": ("image", "flavor"), "gcp": ("zone",), "hosts": ("addresses",)}


class Config(Section):
    """A cluster and what runs on it."""

    name: str = Field(DEFAULT_NAME, description="name of the cluster; several can stand side by side")
    provider: Literal["local", "openstack", "gcp", "hosts"] = Field(
        "local", description="where nodes come from: local, openstack, gcp or hosts"
    )
    nodes: int = Field(2, ge=1, le=MAX_NODES, description="machines, the head among them; with hosts: all of them")
    min_nodes: int | None = Field(
        None, ge=1, le=MAX_NODES, description="a deploy is content with so many of them; default: all"
    )
    slots: int | None = Field(None, ge=1, le=64, description="ranks per node; default: one per GPU, or one")
    allow_from: list[IPv4Network] | None = Field(
        None, min_length=1, description="networks that may ssh into a cloud's nodes; default: this machine's address"
    )
    jupyter: bool = Field(False, description="JupyterLab on the head, for `orchestrator notebook`")
    jupyter_password: str | None = Field(None, exclude=True, min_length=8, description="its password; default: made up")
    monitoring_password: str | None = Field(
        None, exclude=True, min_length=8, description="Grafana's password; default: made up"
    )
    prices: dict[str, float] = Field(
        {}, description="price per hour of flavors or machine types, for `orchestrator plan` and the start of `deploy`"
    )
    currency: str = Field("EUR", description="what the prices are in")
    local: Local = Local()
    openstack: OpenStack = OpenStack()
    gcp: Gcp = Gcp()
    hosts: Hosts = Hosts()
    gpu: Gpu = Gpu()
    monitoring: Monitoring = Monitoring()
    launch: Launch = Launch()
    train: Train = Train()

    @field_validator("name")
    @classmethod
    def _hostname(cls, name: str) -> str:
        if not NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not usable: {NAME_RULE}")
        return name

    @model_validator(mode="before")
    @classmethod
    def _every_host(cls, values: Any) -> Any:
        """With hosts there are as many nodes as hosts, unless fewer are asked for."""
        hosts = values.get("hosts") if isinstance(values, Mapping) and values.get("provider") == "hosts" else None
        addresses = hosts.get("addresses") if isinstance(hosts, Mapping) else None
        return {"nodes": len(addresses), **values} if isinstance(addresses, list) and addresses else values


def load(
    path: Path | None, flags: Mapping[str, Any], base: Mapping[str, Any] | None = None, whole: bool = True
) -> Config:
    """The Config of ``path`` (or of ``base`` where there is no file), overridden by ``flags`` ("local.cpus": 2).

    Where it need not be ``whole``, keys that its provider needs may be missing. Raises ConfigError with every problem,
    each as ``file: path.to.key: what is wrong``.
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
    given = {key for key, value in flags.items() if value is not None}
    try:
        config = Config.model_validate(values)
    except ValidationError as error:
        problems = [_problem(e, path, given) for e in error.errors()]
        raise ConfigError(problems) from None
    amiss = [_place(key, path, given) + f": {what}" for key, what in _amiss(config) if whole]
    if amiss:
        raise ConfigError(amiss)
    return config


def _amiss(config: Config) -> Iterator[tuple[str, str]]:
    """What is wrong between keys, each of which is right by itself."""
    section = getattr(config, config.provider)
    for key in NEEDED.get(config.provider, ()):
        if not getattr(section, key):
            yield f"{config.provider}.{key}", f"needed with provider {config.provider}"
    if config.min_nodes and config.min_nodes > config.nodes:
        yield "min_nodes", f"{config.min_nodes} are more than the {config.nodes} nodes asked for"
    if config.provider == "hosts" and 0 < len(config.hosts.addresses) < config.nodes:
        yield "nodes", f"{config.nodes} asked for, hosts.addresses has {len(config.hosts.addresses)}"


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
        problems = "; ".join(_problem(e, None, set()) for e in error.errors())
        raise StateError(f"the recorded configuration cannot be used: {problems}", "name a cluster.yaml") from error


def usable(values: Mapping[str, Any]) -> Config:
    """What can be used of the Config that a state file holds: for a teardown, which nothing may hold up."""
    kept = dict(values)
    while True:
        try:
            return stored(kept)
        except StateError as error:
            if not isinstance(error.__cause__, ValidationError):
                raise
            for problem in error.__cause__.errors():
                kept.pop(str(problem["loc"][0]), None)


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


def _problem(error: Any, path: Path | None, flags: set[str]) -> str:
    key = ".".join(map(str, error["loc"]))
    return explain(error, _place(key, path, flags).removesuffix(key), [name for name, _, _ in every_key()])


def explain(error: Any, where: str, known: list[str]) -> str:
    """One of pydantic's errors as ``where`` and ``path.to.key: what is wrong``, with the nearest of the ``known``."""
    key, kind = ".".join(map(str, error["loc"])), error["type"]
    place = f"{where}{key}"
    if kind == "extra_forbidden":
        return f"{place}: unknown key{nearest(key, known)}"
    detail = error["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    shown = kind != "value_error" and not key.endswith("password")
    return f"{place}: {error['input']!r}: {detail}" if shown else f"{place}: {detail}"


def _place(key: str, path: Path | None, flags: set[str]) -> str:
    return f"{path}: {key}" if path and key not in flags else key


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
            yield f"{prefix}{name}", field.description or "", to_jsonable_python(field.default)


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
