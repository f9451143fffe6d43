"""Model of cluster.yaml: all sections, and the keys that hold for every provider."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, field_validator, model_validator

from orchestrator.config.gpu_section import Gpu
from orchestrator.config.hosts_section import Hosts
from orchestrator.config.launch_section import Launch
from orchestrator.config.monitoring_section import Monitoring
from orchestrator.config.paths import is_file
from orchestrator.config.provider_sections import Gcp, Local, OpenStack
from orchestrator.config.section import MAX_NODES, MAX_SLOTS, MOST, NAME, NAME_RULE, Network, Number, Section
from orchestrator.config.train_section import Train
from orchestrator.schema.bounded_files import shown

DEFAULT_NAME = "default"
Provider = Literal["local", "openstack", "gcp", "hosts"]
PROVIDERS: tuple[str, ...] = get_args(Provider)
Framework = Literal["tensorflow", "pytorch", "both"]


class Config(Section):
    """Configuration of a cluster and of its runs."""

    name: str = Field(DEFAULT_NAME, description="name of the cluster; several clusters can exist at the same time")
    provider: Provider = Field("local", description="where nodes come from: local, openstack, gcp or hosts")
    nodes: int = Field(2, ge=1, le=MAX_NODES, description="number of machines, including the head (hosts: all of them)")
    min_nodes: int | None = Field(
        None, ge=1, le=MAX_NODES, description="least number of nodes with which a deploy succeeds; default: all"
    )
    slots: int | None = Field(None, ge=1, le=MAX_SLOTS, description="ranks per node; default: one per GPU, or one")
    framework: Framework = Field(
        "tensorflow",
        description="framework of the nodes' image: tensorflow, pytorch or both; `train` needs tensorflow or both",
    )
    image: str | None = Field(
        None,
        min_length=1,
        description="your own image for the nodes: its name, or the path of a Dockerfile; default: the project's",
    )
    allow_from: list[Network] | None = Field(
        None,
        min_length=1,
        description="networks that may connect to a cloud's nodes by ssh; default: this machine's address",
    )
    jupyter: bool = Field(False, description="JupyterLab on the head, for `orchestrator notebook`")
    jupyter_password: str | None = Field(
        None, exclude=True, min_length=8, description="password of JupyterLab; default: generated"
    )
    monitoring_password: str | None = Field(
        None, exclude=True, min_length=8, description="password of Grafana; default: generated"
    )
    prices: dict[str, Annotated[Number, Field(ge=0, le=MOST)]] = Field(
        {}, description="price per hour of flavors or machine types, for `orchestrator plan` and the start of `deploy`"
    )
    currency: str = Field("EUR", description="currency of the prices")
    local: Local = Local()
    openstack: OpenStack = OpenStack()
    gcp: Gcp = Gcp()
    hosts: Hosts = Hosts()
    gpu: Gpu = Gpu()
    monitoring: Monitoring = Monitoring()
    launch: Launch = Launch()
    train: Train = Train()

    @field_validator("image")
    @classmethod
    def _absolute(cls, image: str | None) -> str | None:
        """Return the absolute path of a Dockerfile, and the name of an image as it is."""
        try:
            path = Path(image or "").expanduser()
        except RuntimeError:
            raise ValueError(f"{shown(image)}: no such user: write the whole path") from None
        return str(path.absolute()) if is_file(path) else image

    @field_validator("name")
    @classmethod
    def _hostname(cls, name: str) -> str:
        if not NAME.fullmatch(name):
            raise ValueError(f"{shown(name)} is not usable: {NAME_RULE}")
        return name

    @model_validator(mode="before")
    @classmethod
    def _every_host(cls, values: Any) -> Any:
        """Default ``nodes`` to the number of hosts if the provider is `hosts`."""
        hosts = values.get("hosts") if isinstance(values, Mapping) and values.get("provider") == "hosts" else None
        addresses = hosts.get("addresses") if isinstance(hosts, Mapping) else None
        return {"nodes": len(addresses), **values} if isinstance(addresses, list) and addresses else values
