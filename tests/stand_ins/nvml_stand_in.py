"""A stand-in for the module `pynvml`, because test machines have no NVIDIA GPU: its values are not measured.

Two GPUs with plausible values. The second behaves like a guest's vGPU, which supports less. ``python -m
tests.stand_ins.nvml_stand_in ARGUMENTS`` runs the real exporter on it.
"""

# ruff: noqa: N802, N816  the names are pynvml's
import ctypes
import queue
import sys
from types import SimpleNamespace
from typing import Any

NVML_SUCCESS, NVML_ERROR_NOT_SUPPORTED, NVML_ERROR_TIMEOUT, NVML_ERROR_GPU_IS_LOST = 0, 3, 10, 15
NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2
NVML_TEMPERATURE_GPU, NVML_FI_DEV_MEMORY_TEMP = 0, 82
NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC = 0, 1, 0
NVML_PERF_POLICY_POWER, NVML_PERF_POLICY_THERMAL = 0, 1
NVML_GRID_LICENSE_FEATURE_CODE_VGPU = 1
nvmlMemory_v2, nvmlEventTypeXidCriticalError = 0x02000028, 8


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"stand-in error {value}")
        self.value = value


class NVMLError_Timeout(NVMLError):  # noqa: N801  pynvml's name
    def __init__(self) -> None:
        super().__init__(NVML_ERROR_TIMEOUT)


DEVICES = [ctypes.c_void_p(0x1000), ctypes.c_void_p(0x2000)]
WHOLE, VGPU = 0x1000, 0x2000
driver = {"loaded": True}
lost: set[int] = set()
Events = queue.Queue[SimpleNamespace]
sets: list[Events] = []
starts: list[str] = []


def _of(device: Any, whole: Any, vgpu: Any = None) -> Any:
    """Return the value for this device; a vGPU does not support values that are None."""
    if device.value in lost:
        raise NVMLError(NVML_ERROR_GPU_IS_LOST)
    value = whole if device.value == WHOLE else vgpu
    if value is None:
        raise NVMLError(NVML_ERROR_NOT_SUPPORTED)
    return value


def nvmlInit() -> None:
    starts.append("init")
    nvmlDeviceGetCount()


def nvmlDeviceGetCount() -> int:
    if not driver["loaded"]:
        raise NVMLError(9)
    return len(DEVICES)


def nvmlDeviceGetHandleByIndex(index: int) -> ctypes.c_void_p:
    return DEVICES[index]


def nvmlSystemGetDriverVersion() -> str:
    return "550.90.07"


def nvmlDeviceGetUUID(device: Any) -> str:
    return f"GPU-stand-in-{device.value:x}"


def nvmlDeviceGetPciInfo(device: Any) -> SimpleNamespace:
    return SimpleNamespace(busId=b"00000000:00:04.0" if device.value == WHOLE else b"00000000:00:05.0")


def nvmlDeviceGetName(device: Any) -> str:
    return str(_of(device, "NVIDIA A100-SXM4-40GB", "GRID A100-10C"))


def nvmlDeviceGetClockInfo(device: Any, kind: int) -> int:
    return int(_of(device, {NVML_CLOCK_SM: 1410, NVML_CLOCK_MEM: 1215}[kind], 1215))


def nvmlDeviceGetFieldValues(device: Any, fields: list[int]) -> list[SimpleNamespace]:
    assert fields == [NVML_FI_DEV_MEMORY_TEMP]
    supported = _of(device, True, False)
    value = SimpleNamespace(uiVal=55)
    return [SimpleNamespace(nvmlReturn=NVML_SUCCESS if supported else NVML_ERROR_NOT_SUPPORTED, value=value)]


def nvmlDeviceGetTemperature(device: Any, sensor: int) -> int:
    return int(_of(device, 61))


def nvmlDeviceGetPowerUsage(device: Any) -> int:
    return int(_of(device, 312_500))


def nvmlDeviceGetTotalEnergyConsumption(device: Any) -> int:
    return int(_of(device, 987_654_321))


def nvmlDeviceGetPcieReplayCounter(device: Any) -> int:
    return int(_of(device, 2))


def nvmlDeviceGetUtilizationRates(device: Any) -> SimpleNamespace:
    return SimpleNamespace(**_of(device, {"gpu": 93, "memory": 41}, {"gpu": 12, "memory": 3}))


def nvmlDeviceGetEncoderUtilization(device: Any) -> list[int]:
    return list(_of(device, [0, 167_000], [0, 167_000]))


def nvmlDeviceGetDecoderUtilization(device: Any) -> list[int]:
    return list(_of(device, [7, 167_000], [0, 167_000]))


def nvmlDeviceGetCurrentClocksEventReasons(device: Any) -> int:
    return int(_of(device, 0x4))


def nvmlDeviceGetViolationStatus(device: Any, policy: int) -> SimpleNamespace:
    return SimpleNamespace(
        violationTime=_of(device, {NVML_PERF_POLICY_POWER: 5_000, NVML_PERF_POLICY_THERMAL: 0}[policy])
    )


def nvmlDeviceGetMemoryInfo(device: Any, version: "int | None" = None) -> SimpleNamespace:
    """A vGPU supports version 1 only."""
    if version is not None:
        return SimpleNamespace(**_of(device, {"free": 30 << 30, "used": 9 << 30, "reserved": 1 << 30}))
    return SimpleNamespace(**_of(device, {}, {"free": 6 << 30, "used": 4 << 30}))


def nvmlDeviceGetTotalEccErrors(device: Any, kind: int, counter: int) -> int:
    return int(_of(device, {NVML_MEMORY_ERROR_TYPE_CORRECTED: 3, NVML_MEMORY_ERROR_TYPE_UNCORRECTED: 0}[kind]))


def nvmlDeviceGetGridLicensableFeatures(device: Any) -> SimpleNamespace:
    feature = SimpleNamespace(featureCode=NVML_GRID_LICENSE_FEATURE_CODE_VGPU, featureState=1)
    licensed = _of(device, False, True)
    return SimpleNamespace(
        isGridLicenseSupported=int(licensed), licensableFeaturesCount=int(licensed), gridLicensableFeatures=[feature]
    )


def nvmlDeviceGetRemappedRows(device: Any) -> tuple[int, ...]:
    return tuple(_of(device, (1, 2, 0, 0)))


def nvmlEventSetCreate() -> Events:
    sets.append(queue.Queue())
    return sets[-1]


def nvmlDeviceRegisterEvents(device: Any, kinds: int, events: Events) -> None:
    assert (kinds, events) == (nvmlEventTypeXidCriticalError, sets[-1])
    _of(device, True)


def nvmlEventSetWait_v2(events: Events, milliseconds: int) -> SimpleNamespace:
    try:
        return events.get(timeout=milliseconds / 1000)
    except queue.Empty:
        raise NVMLError_Timeout from None


def xid(device: int, number: int) -> None:
    """Raise an XID error of GPU 0 or 1."""
    for events in sets:
        events.put(SimpleNamespace(device=ctypes.c_void_p(DEVICES[device].value), eventData=number))


if __name__ == "__main__":
    from orchestrator.trainer.telemetry import exporter

    sys.modules["pynvml"] = sys.modules[__name__]
    exporter.main(sys.argv[1:])
