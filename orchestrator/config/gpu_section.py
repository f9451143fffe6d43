"""Section `gpu` of cluster.yaml."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from orchestrator.config.section import Section


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
