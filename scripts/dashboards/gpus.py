"""*GPUs*: whether GPUs are starved, and whether one is hot, throttled or broken.

Fields are those of dcgm-exporter 4.5.3-4.8.2, etc/default-counters.csv; the bits of DCGM_FI_DEV_CLOCKS_EVENT_REASONS
are NVML's (nvmlClocksEventReasons in nvml.h).
"""

from collections.abc import Sequence

from grafana_foundation_sdk.models import dashboard

from scripts.dashboards import units_and_queries as v
from scripts.dashboards.cluster import IDLE, NODES
from scripts.dashboards.common_parts import of_nodes
from scripts.dashboards.panels import Panel, lines, spanned, tile, verdict
from scripts.dashboards.tables import Column, Rows, listing

NONE, UNREPORTED = "no GPUs in this cluster", "no GPU reports it"
GPU = "GPU {{gpu}} on {{node}}"
REASONS = {"power cap": 4, "hardware slowdown": 8, "heat": 32, "heat (hardware)": 64, "power brake": 128}


def of_gpu(field: str, change: str = "") -> str:
    """Return a field of DCGM by node and GPU; `change` is a function over the last minute, for counters."""
    series = f"DCGM_FI_DEV_{field}{{{NODES}}}"
    return f"max by (node, gpu) ({change}({series}[1m]))" if change else f"max by (node, gpu) ({series})"


BUSY, HOT, POWER = of_gpu("GPU_UTIL"), of_gpu("GPU_TEMP"), of_gpu("POWER_USAGE")
USED = of_gpu("FB_USED")
FULL = f"{USED} / ({USED} + {of_gpu('FB_FREE')})"
HELD_BACK = {
    "heat, " + GPU: f"{of_gpu('THERMAL_VIOLATION', 'rate')} / 1e9",
    "power, " + GPU: f"{of_gpu('POWER_VIOLATION', 'rate')} / 1e9",
}
WHY = {f"{reason}, {GPU}": f"floor({of_gpu('CLOCKS_EVENT_REASONS')} / {bit}) % 2" for reason, bit in REASONS.items()}
XID, UNCORRECTED, CORRECTED = of_gpu("XID_ERRORS"), of_gpu("ECC_DBE_VOL_TOTAL"), of_gpu("ECC_SBE_VOL_TOTAL")
REMAPPED, NOT_REMAPPED = of_gpu("UNCORRECTABLE_REMAPPED_ROWS"), of_gpu("ROW_REMAP_FAILURE")
BROKEN = " or ".join(f"({series}) > 0" for series in (XID, UNCORRECTED, NOT_REMAPPED))
INPUT = "run:orchestrator_training_input:ratio"


def build() -> dashboard.Dashboard:
    """Build the dashboard."""
    says = "Whether GPUs starve, and whether one is hot, held back or broken."
    sections = {
        "": _verdict(),
        "Work": _work(),
        "Heat, power and clocks": _limits(),
        "Errors": _errors(),
        "Each GPU": [_each()],
    }
    return of_nodes("orchestrator-gpus", says, sections)


def _number(condition: str) -> str:
    """Return a query for the number of GPUs that meet a condition: 0 if none does, no value without GPUs."""
    return f"count({condition}) or count({BUSY}) * 0"


def _verdict() -> Sequence[Panel]:
    # Bits 5 and 6 of the reasons, as the alert GpuThrottled: some GPUs report only one of the two.
    reasons = f"floor({of_gpu('CLOCKS_EVENT_REASONS')} / 32) % 4 > 0"
    throttled = _number(f"{reasons} or {of_gpu('THERMAL_VIOLATION', 'rate')} > 0")
    count = {"GPUs": f"count({BUSY}) or vector(0)"}
    panels = [
        tile("GPUs", "GPUs that answer.", count, v.COUNT, NONE, v.NO_GPUS, worded=True),
        verdict("Utilisation", "Mean of all GPUs.", f"avg({BUSY})", v.PERCENT, v.GPU_USE, NONE),
        verdict(
            "Input wait",
            "Share of a training step spent waiting for images: why GPUs starve.",
            f"topk(1, {INPUT} >= 0)",
            v.SHARE,
            v.INPUT_WAIT,
            IDLE,
            ("worst run", "of a step"),
        ),
        verdict("Memory", "The fullest.", f"topk(1, {FULL})", v.SHARE, v.GPU_MEMORY, NONE, (GPU, "fullest")),
        verdict(
            "Temperature", "The hottest.", f"topk(1, {HOT})", v.CELSIUS, v.TEMPERATURE, UNREPORTED, (GPU, "hottest")
        ),
        verdict("Held back", "GPUs that heat slows down now.", throttled, v.COUNT, v.THROTTLED, NONE),
        verdict("Errors", "GPUs with an XID or ECC error.", _number(BROKEN), v.COUNT, v.BROKEN, NONE),
    ]
    return spanned(panels, (3, 3, 4, 4, 4, 3, 3))


def _work() -> list[Panel]:
    return [
        lines("Utilisation", "Share of time in which a kernel runs.", {GPU: BUSY}, v.PERCENT, NONE, width=8),
        lines("Memory", "Share of its memory in use.", {GPU: FULL}, v.SHARE, NONE, v.GPU_MEMORY, width=8),
        lines("Input wait", "Share of a training step.", {"{{run}}": INPUT}, v.SHARE, IDLE, v.INPUT_WAIT, width=8),
    ]


def _limits() -> list[Panel]:
    clock = f"{of_gpu('SM_CLOCK')} * 1e6"
    return [
        lines("Temperature", "Of the chip.", {GPU: HOT}, v.CELSIUS, UNREPORTED, v.TEMPERATURE, width=8),
        lines("Power", "Drawn by the board.", {GPU: POWER}, v.WATTS, UNREPORTED, width=8),
        lines("Clock", "Of the multiprocessors.", {GPU: clock}, v.HERTZ, NONE, width=8),
        lines("Held back", "Share of time in which heat or power slows it.", HELD_BACK, v.SHARE, UNREPORTED),
        lines("Why clocks are held down", "1 while the reason holds.", WHY, v.COUNT, UNREPORTED),
    ]


def _errors() -> list[Panel]:
    ecc = {f"uncorrected, {GPU}": UNCORRECTED, f"corrected, {GPU}": CORRECTED}
    rows = {f"remapped, {GPU}": REMAPPED, f"failed, {GPU}": NOT_REMAPPED}
    return [
        lines("Last XID", "Number of the driver's last error; 0 is none.", {GPU: XID}, v.COUNT, UNREPORTED, width=8),
        lines("ECC errors", "Since the driver was loaded.", ecc, v.COUNT, UNREPORTED, width=8),
        lines("Memory rows", "Replaced for uncorrectable errors.", rows, v.COUNT, UNREPORTED, width=8),
    ]


def _each() -> Panel:
    named = f"max by (node, gpu, modelName) (DCGM_FI_DEV_GPU_UTIL{{{NODES}}})"
    columns = [
        Column("Utilisation", named, v.PERCENT, v.GPU_USE),
        Column("Memory", FULL, v.SHARE, v.GPU_MEMORY),
        Column("Temperature", HOT, v.CELSIUS, v.TEMPERATURE),
        Column("Power", POWER, v.WATTS),
        Column("Clock", f"{of_gpu('SM_CLOCK')} * 1e6", v.HERTZ),
        Column("Last XID", XID, v.COUNT, v.BROKEN),
        Column("ECC, uncorrected", UNCORRECTED, v.COUNT, v.BROKEN),
    ]
    rows = Rows({"node": "Node", "gpu": "GPU", "modelName": "Model"})
    return listing("GPUs", "Each GPU as it is now.", rows, columns, NONE)
