"""The table of Google's machine types."""

from typing import Any

import pytest

from orchestrator import packaged_files
from orchestrator.config import Config, yaml_documents
from orchestrator.config.provider_sections import Gcp
from orchestrator.errors import ConfigError
from orchestrator.prediction import machine_types
from orchestrator.prediction.machine_types import MachineType

NAMES = machine_types.by_name()


def config(name: str = "n1-standard-8", slots: int | None = None, **gcp: Any) -> Config:
    return Config(provider="gcp", slots=slots, gcp=Gcp(machine_type=name, **gcp))


@pytest.mark.parametrize(
    "known",
    [
        MachineType("n1-standard-8", 16, 0, 8),
        MachineType("n2d-highcpu-224", 32, 0, 224),
        MachineType("e2-standard-4", 8, 0, 4),
        MachineType("c3-highmem-88", 62, 0, 88),
        MachineType("a2-highgpu-1g", 24, 1, None),
        MachineType("g2-standard-48", 50, 4, None),
    ],
)
def test_names_have_the_limits_gpus_and_vcpus_of_googles_pages(known: MachineType) -> None:
    assert NAMES[known.name] == known


def test_every_type_has_vcpus_or_gpus_and_a_possible_limit() -> None:
    assert all(
        (machine_type.cpus is None) == (machine_type.gpus > 0) and 1 < machine_type.gbit <= 100
        for machine_type in NAMES.values()
    )


def test_default_type_and_types_with_a_price_are_in_the_table() -> None:
    example = yaml_documents.read(packaged_files.PACKAGE.parent / "docs" / "examples" / "gcp-prices.yaml")
    priced = {name.removesuffix(" spot") for name in example["prices"] if name[:2] in ("n1", "a2", "a3")}
    assert {Gcp().machine_type, *priced} <= set(NAMES)


@pytest.mark.parametrize(
    ("configuration", "cores", "ranks"),
    [
        (config(), 8, 1),
        (config(slots=4), 2, 1),
        (config(accelerator="nvidia-tesla-t4", accelerators=2), None, 2),
        (config("n2-standard-8", accelerator="nvidia-tesla-t4"), 8, 1),
        (config("a2-highgpu-4g"), None, 4),
        (config("c4-standard-8"), None, 1),
        (Config(), None, 1),
    ],
)
def test_machine_type_sets_ranks_and_cores_of_a_node(configuration: Config, cores: float | None, ranks: int) -> None:
    assert (machine_types.cores(configuration), machine_types.ranks(configuration)) == (cores, ranks)


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("n1-standrad-8", "nearest: n1-standard-8"),
        ("c4-standard-8", "nearest: c"),
        ("n2-custom-8-16384", "it has n1-…, n2-…"),
        ("m1.large", "it has n1-…, n2-…"),
    ],
)
def test_unknown_name_is_refused_with_nearest_names_and_remedy(name: str, names: str) -> None:
    with pytest.raises(ConfigError) as refused:
        machine_types.find("gcp.machine_type", name, "measure it")
    assert f"gcp.machine_type: {name!r} is not in the table of Google's bandwidth limits ({names}" in str(refused.value)
    assert refused.value.hint == "measure it"
