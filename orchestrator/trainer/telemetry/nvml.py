"""GPU metrics by NVML under dcgm-exporter's names, for guests in which DCGM does not work (vGPU).

Values that a GPU or its guest does not support are left out, never 0. Labels are dcgm-exporter's (4.5.3-4.8.2,
internal/pkg/rendermetrics/render_metrics.go) except its host name, which the target's ``node`` replaces.
"""

import importlib
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from prometheus_client import Metric
from prometheus_client.registry import Collector

from orchestrator.trainer.telemetry.nvml_fields import FIELDS, Field

WAIT_MILLISECONDS = 1000


@dataclass(frozen=True)
class Gpu:
    """One GPU: NVML's handle, which stays valid as long as its driver does, and its labels."""

    device: Any
    labels: dict[str, str]


class Gpus(Collector):
    """Collector of this node's GPUs. Without a driver there are none: each scrape looks for it again."""

    def __init__(self, nvml: Any = None) -> None:
        self._nvml = nvml or importlib.import_module("pynvml")
        self._gpus: list[Gpu] = []
        self._xids: Xids | None = None
        self._last_message = ""

    def collect(self) -> Iterator[Metric]:
        """Yield a family for each of DCGM's fields that a GPU of this node supports."""
        try:
            self._find_gpus()
        except self._nvml.NVMLError as error:
            self._print_once(f"no GPU found: NVML: {error}")
            return
        for field in FIELDS:
            yield from self._family(field)

    def _find_gpus(self) -> None:
        """Find the GPUs, at first and after the driver was away.

        Raises:
            NVMLError: NVML fails, as without a driver.
        """
        if self._xids is not None:
            with suppress(self._nvml.NVMLError):
                self._nvml.nvmlDeviceGetCount()
                return
        self._xids, self._gpus = None, []
        self._nvml.nvmlInit()
        self._gpus = [gpu for index in range(self._nvml.nvmlDeviceGetCount()) if (gpu := self._gpu(index))]
        if self._gpus:
            self._xids = Xids(self._nvml, [gpu.device for gpu in self._gpus])

    def _gpu(self, index: int) -> "Gpu | None":
        """Return a GPU; None if NVML does not reach it, as one that fell off the bus: it must not hide the others."""
        try:
            device = self._nvml.nvmlDeviceGetHandleByIndex(index)
            return Gpu(device, self._labels(index, device))
        except self._nvml.NVMLError as error:
            self._print_once(f"GPU {index} is left out: NVML: {error}")
            return None

    def _labels(self, index: int, device: Any) -> dict[str, str]:
        return {
            "gpu": str(index),
            "UUID": self._nvml.nvmlDeviceGetUUID(device),
            "pci_bus_id": _text(self._nvml.nvmlDeviceGetPciInfo(device).busId),
            "device": f"nvidia{index}",
            "modelName": self._nvml.nvmlDeviceGetName(device),
            "DCGM_FI_DRIVER_VERSION": self._nvml.nvmlSystemGetDriverVersion(),
        }

    def _family(self, field: Field) -> Iterator[Metric]:
        # The library would add "_total" to a counter's name, which DCGM's names lack: so counters have no type.
        family = Metric(field.name, field.help, field.kind if field.kind == "gauge" else "unknown")
        for gpu in self._gpus:
            with suppress(self._nvml.NVMLError):
                value = field.read(self._nvml, gpu.device) if field.read else self._xid(gpu)
                if value is not None:
                    family.add_sample(field.name, gpu.labels, float(value))
        if family.samples:
            yield family

    def _xid(self, gpu: Gpu) -> "int | None":
        return self._xids.last(gpu.device) if self._xids else None

    def _print_once(self, message: str) -> None:
        """Print a message once, not at every scrape."""
        if message != self._last_message:
            print(message, file=sys.stderr, flush=True)
        self._last_message = message


class Xids:
    """Last XID error of each GPU, from events that a thread waits for; GPUs without such events are left out."""

    def __init__(self, nvml: Any, devices: list[Any]) -> None:
        self._nvml = nvml
        self._last: dict[bytes, int] = {}
        with suppress(nvml.NVMLError):
            self._events = nvml.nvmlEventSetCreate()
        for device in devices:
            with suppress(nvml.NVMLError, AttributeError):
                nvml.nvmlDeviceRegisterEvents(device, nvml.nvmlEventTypeXidCriticalError, self._events)
                self._last[bytes(device)] = 0
        if self._last:
            threading.Thread(target=self._watch, daemon=True).start()

    def last(self, device: Any) -> "int | None":
        """Return the last XID of a GPU: 0 if there was none, None if the GPU does not report them."""
        return self._last.get(bytes(device))

    def _watch(self) -> None:
        """Record events until the driver goes. A GPU that fell off the bus can only be identified by its handle."""
        while True:
            try:
                event = self._nvml.nvmlEventSetWait_v2(self._events, WAIT_MILLISECONDS)
                self._last[bytes(event.device)] = int(event.eventData)
            except self._nvml.NVMLError_Timeout:
                continue
            except self._nvml.NVMLError:
                return


def _text(name: "str | bytes") -> str:
    return name.decode() if isinstance(name, bytes) else name
