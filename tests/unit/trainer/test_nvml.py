"""GPU metrics under dcgm-exporter's names, from a stand-in for NVML."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from orchestrator.trainer.telemetry import nvml, nvml_fields
from tests.stand_ins import nvml_stand_in

# dcgm-exporter 4.5.3-4.8.2, etc/default-counters.csv: enabled by default, without profiling and NVLink.
DEFAULTS = {"SM_CLOCK", "MEM_CLOCK", "MEMORY_TEMP", "GPU_TEMP", "POWER_USAGE", "TOTAL_ENERGY_CONSUMPTION",
            "PCIE_REPLAY_COUNTER", "GPU_UTIL", "MEM_COPY_UTIL", "ENC_UTIL", "DEC_UTIL", "XID_ERRORS", "FB_FREE",
            "FB_USED", "FB_RESERVED", "VGPU_LICENSE_STATUS", "UNCORRECTABLE_REMAPPED_ROWS",
            "CORRECTABLE_REMAPPED_ROWS", "ROW_REMAP_FAILURE"}  # fmt: skip


@pytest.fixture
def gpus() -> Iterator[nvml.Gpus]:
    yield nvml.Gpus(nvml_stand_in)
    nvml_stand_in.driver["loaded"] = True
    nvml_stand_in.lost.clear()


def values(gpus: nvml.Gpus, gpu: int) -> dict[str, float]:
    """Return the metrics of a GPU by DCGM's names without their prefix."""
    return {
        name.removeprefix("DCGM_FI_DEV_"): value for name, labels, value in served(gpus) if labels["gpu"] == str(gpu)
    }


def served(gpus: nvml.Gpus) -> list[tuple[str, dict[str, str], float]]:
    registry = CollectorRegistry()
    registry.register(gpus)
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return [(sample.name, sample.labels, sample.value) for family in families for sample in family.samples]


def test_default_counters_of_dcgm_exporter_are_exported(gpus: nvml.Gpus) -> None:
    assert set(values(gpus, 0)) >= DEFAULTS
    assert set(values(gpus, 0)) == {field.name.removeprefix("DCGM_FI_DEV_") for field in nvml_fields.FIELDS}


def test_units_are_dcgms(gpus: nvml.Gpus) -> None:
    metrics = values(gpus, 0)
    assert metrics["POWER_USAGE"] == 312.5  # watts; NVML says milliwatts
    assert (metrics["FB_FREE"], metrics["FB_USED"], metrics["FB_RESERVED"]) == (30 << 10, 9 << 10, 1 << 10)  # MiB
    assert metrics["TOTAL_ENERGY_CONSUMPTION"] == 987_654_321  # millijoules
    assert (metrics["GPU_UTIL"], metrics["MEMORY_TEMP"], metrics["ECC_SBE_VOL_TOTAL"]) == (93, 55, 3)


def test_labels_are_dcgm_exporters(gpus: nvml.Gpus) -> None:
    assert served(gpus)[0][1] == {
        "gpu": "0",
        "UUID": "GPU-stand-in-1000",
        "pci_bus_id": "00000000:00:04.0",
        "device": "nvidia0",
        "modelName": "NVIDIA A100-SXM4-40GB",
        "DCGM_FI_DRIVER_VERSION": "550.90.07",
    }


def test_unsupported_values_are_left_out(gpus: nvml.Gpus) -> None:
    metrics = values(gpus, 1)
    assert metrics["VGPU_LICENSE_STATUS"] == 1
    assert (metrics["FB_FREE"], metrics["FB_USED"]) == (6 << 10, 4 << 10)
    left_out = {"GPU_TEMP", "MEMORY_TEMP", "POWER_USAGE", "FB_RESERVED", "ECC_DBE_VOL_TOTAL", "XID_ERRORS"}
    assert left_out & set(metrics) == set()


def test_xid_of_a_gpu_off_the_bus_is_exported(gpus: nvml.Gpus) -> None:
    assert values(gpus, 0)["XID_ERRORS"] == 0
    nvml_stand_in.xid(0, 79)
    nvml_stand_in.lost.add(nvml_stand_in.WHOLE)
    assert eventually(lambda: values(gpus, 0) == {"XID_ERRORS": 79})
    assert values(gpus, 1)["GPU_UTIL"] == 12


def test_gpu_lost_before_the_start_hides_no_other(gpus: nvml.Gpus, capsys: pytest.CaptureFixture[str]) -> None:
    nvml_stand_in.lost.add(nvml_stand_in.WHOLE)
    assert values(gpus, 1)["GPU_UTIL"] == 12
    assert values(gpus, 0) == {}
    assert capsys.readouterr().err == "GPU 0 is left out: NVML: stand-in error 15\n"


def test_gpus_return_with_the_driver(gpus: nvml.Gpus, capsys: pytest.CaptureFixture[str]) -> None:
    nvml_stand_in.driver["loaded"] = False
    assert served(gpus) == served(gpus) == []
    assert capsys.readouterr().err == "no GPU found: NVML: stand-in error 9\n"
    nvml_stand_in.driver["loaded"] = True
    assert values(gpus, 0)["GPU_UTIL"] == 93


def test_nvml_is_initialised_once(gpus: nvml.Gpus) -> None:
    served(gpus)
    starts_before = len(nvml_stand_in.starts)
    served(gpus)
    assert len(nvml_stand_in.starts) == starts_before


def eventually(happened: Any) -> bool:
    deadline = time.monotonic() + 10
    while not happened() and time.monotonic() < deadline:
        time.sleep(0.02)
    return bool(happened())
