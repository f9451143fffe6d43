"""DCGM's fields as NVML reports them: the same names, help and units.

They are those of dcgm-exporter 4.5.3-4.8.2, etc/default-counters.csv, including those in its comments
(https://github.com/NVIDIA/dcgm-exporter/blob/4.5.3-4.8.2/etc/default-counters.csv), and one field that it does not
list, DCGM_FI_DEV_CLOCKS_EVENT_REASONS (DCGM 4.5.3, dcgmlib/dcgm_fields.h). Of its defaults, those that require DCGM's
profiling (DCGM_FI_PROF_*) and NVLink's bandwidth are missing.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

Read = Callable[[Any, Any], float]  # takes the pynvml module and a device's handle


@dataclass(frozen=True)
class Field:
    """One of DCGM's fields, its type and help as in default-counters.csv, and how to read it by NVML.

    ``read`` raises NVMLError if the GPU does not support it; it is None for a field that comes as an event.
    """

    name: str
    kind: str
    help: str
    read: "Read | None"


def _memory(part: str) -> Read:
    def read(nvml: Any, device: Any) -> float:
        with suppress(nvml.NVMLError):  # drivers before 510 know only version 1, which has no "reserved"
            return int(getattr(nvml.nvmlDeviceGetMemoryInfo(device, version=nvml.nvmlMemory_v2), part)) >> 20
        memory = nvml.nvmlDeviceGetMemoryInfo(device)
        if not hasattr(memory, part):
            raise nvml.NVMLError(nvml.NVML_ERROR_NOT_SUPPORTED)
        return int(getattr(memory, part)) >> 20

    return read


def _memory_temperature(nvml: Any, device: Any) -> float:
    value = nvml.nvmlDeviceGetFieldValues(device, [nvml.NVML_FI_DEV_MEMORY_TEMP])[0]
    if value.nvmlReturn != nvml.NVML_SUCCESS:
        raise nvml.NVMLError(value.nvmlReturn)
    return float(value.value.uiVal)


def _clock(kind: str) -> Read:
    return lambda nvml, device: nvml.nvmlDeviceGetClockInfo(device, getattr(nvml, kind))


def _ecc(kind: str) -> Read:
    return lambda nvml, device: nvml.nvmlDeviceGetTotalEccErrors(device, getattr(nvml, kind), nvml.NVML_VOLATILE_ECC)


def _violation(policy: str) -> Read:
    return lambda nvml, device: nvml.nvmlDeviceGetViolationStatus(device, getattr(nvml, policy)).violationTime


def _license(nvml: Any, device: Any) -> float:
    """Read the vGPU license as DcgmCacheManager.cpp does: 1 if the feature is licensed, 0 if it is not."""
    licenses = nvml.nvmlDeviceGetGridLicensableFeatures(device)
    count = licenses.licensableFeaturesCount if licenses.isGridLicenseSupported else 0
    features = [licenses.gridLicensableFeatures[number] for number in range(count)]
    states = [f.featureState for f in features if f.featureCode == nvml.NVML_GRID_LICENSE_FEATURE_CODE_VGPU]
    return float(any(state > 0 for state in states))


FIELDS = (
    Field("DCGM_FI_DEV_SM_CLOCK", "gauge", "SM clock frequency (in MHz).", _clock("NVML_CLOCK_SM")),
    Field("DCGM_FI_DEV_MEM_CLOCK", "gauge", "Memory clock frequency (in MHz).", _clock("NVML_CLOCK_MEM")),
    Field("DCGM_FI_DEV_MEMORY_TEMP", "gauge", "Memory temperature (in C).", _memory_temperature),
    Field("DCGM_FI_DEV_GPU_TEMP", "gauge", "GPU temperature (in C).",
          lambda nvml, device: nvml.nvmlDeviceGetTemperature(device, nvml.NVML_TEMPERATURE_GPU)),
    Field("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (in W).",
          lambda nvml, device: nvml.nvmlDeviceGetPowerUsage(device) / 1000),
    Field("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter", "Total energy consumption since boot (in mJ).",
          lambda nvml, device: nvml.nvmlDeviceGetTotalEnergyConsumption(device)),
    Field("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter", "Total number of PCIe retries.",
          lambda nvml, device: nvml.nvmlDeviceGetPcieReplayCounter(device)),
    Field("DCGM_FI_DEV_GPU_UTIL", "gauge", "GPU utilization (in %).",
          lambda nvml, device: nvml.nvmlDeviceGetUtilizationRates(device).gpu),
    Field("DCGM_FI_DEV_MEM_COPY_UTIL", "gauge", "Memory utilization (in %).",
          lambda nvml, device: nvml.nvmlDeviceGetUtilizationRates(device).memory),
    Field("DCGM_FI_DEV_ENC_UTIL", "gauge", "Encoder utilization (in %).",
          lambda nvml, device: nvml.nvmlDeviceGetEncoderUtilization(device)[0]),
    Field("DCGM_FI_DEV_DEC_UTIL", "gauge", "Decoder utilization (in %).",
          lambda nvml, device: nvml.nvmlDeviceGetDecoderUtilization(device)[0]),
    Field("DCGM_FI_DEV_XID_ERRORS", "gauge", "Value of the last XID error encountered.", None),
    Field("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "gauge", "Why clocks are held down (a bit mask).",
          lambda nvml, device: nvml.nvmlDeviceGetCurrentClocksEventReasons(device)),
    Field("DCGM_FI_DEV_POWER_VIOLATION", "counter", "Throttling duration due to power constraints (in ns).",
          _violation("NVML_PERF_POLICY_POWER")),
    Field("DCGM_FI_DEV_THERMAL_VIOLATION", "counter", "Throttling duration due to thermal constraints (in ns).",
          _violation("NVML_PERF_POLICY_THERMAL")),
    Field("DCGM_FI_DEV_FB_FREE", "gauge", "Framebuffer memory free (in MiB).", _memory("free")),
    Field("DCGM_FI_DEV_FB_USED", "gauge", "Framebuffer memory used (in MiB).", _memory("used")),
    Field("DCGM_FI_DEV_FB_RESERVED", "gauge", "Framebuffer memory reserved (in MiB).", _memory("reserved")),
    Field("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "counter", "Total number of single-bit volatile ECC errors.",
          _ecc("NVML_MEMORY_ERROR_TYPE_CORRECTED")),
    Field("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "counter", "Total number of double-bit volatile ECC errors.",
          _ecc("NVML_MEMORY_ERROR_TYPE_UNCORRECTED")),
    Field("DCGM_FI_DEV_VGPU_LICENSE_STATUS", "gauge", "vGPU License status", _license),
    Field("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "counter",
          "Number of remapped rows for uncorrectable errors",
          lambda nvml, device: nvml.nvmlDeviceGetRemappedRows(device)[1]),
    Field("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "counter", "Number of remapped rows for correctable errors",
          lambda nvml, device: nvml.nvmlDeviceGetRemappedRows(device)[0]),
    Field("DCGM_FI_DEV_ROW_REMAP_FAILURE", "gauge", "Whether remapping of rows has failed",
          lambda nvml, device: nvml.nvmlDeviceGetRemappedRows(device)[3]),
)  # fmt: skip
