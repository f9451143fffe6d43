"""Section `launch` of cluster.yaml."""

import re
from typing import Literal

from pydantic import Field, field_validator

from orchestrator.config.section import MAX_CYCLE, MAX_FUSION, Section
from orchestrator.schema.bounded_files import shown
from orchestrator.schema.training import HOROVODS_LARGEST_MESSAGE, OUR_LARGEST_MESSAGE

# A name becomes part of a systemd unit, and of Ansible's variables. Linux allows 15 characters.
INTERFACE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@-]{0,14}")


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
        description="milliseconds between two rounds of Horovod's background thread; default: the recipe's; else 5, or"
        " for train without Adasum 25, since it starts a round as soon as it has gradients; with autotune Horovod's"
        " choice",
    )
    fusion_threshold: int | None = Field(
        None,
        ge=0,
        le=MAX_FUSION,
        description="largest message of Horovod, in MiB; default: the recipe's; else"
        f" {OUR_LARGEST_MESSAGE} (our trainer) or {HOROVODS_LARGEST_MESSAGE} (other engines and your own scripts); with"
        " autotune Horovod's choice",
    )
    autotune: bool | None = Field(
        None,
        description="let Horovod try values of cycle_time and fusion_threshold, unless they are set, and write them to"
        " autotune.csv; default: the recipe's, or no",
    )

    @field_validator("network_interface")
    @classmethod
    def _one_name(cls, name: str | None) -> str | None:
        if name is not None and not INTERFACE.fullmatch(name):
            raise ValueError(f"{shown(name)}: write it like eth0")
        return name
