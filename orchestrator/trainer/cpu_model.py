"""Model and instruction sets of the CPU, as Linux lists them. Standard library only."""

import hashlib
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
FLAGS = ("flags", "Features")  # first word of the line, on x86 and on Arm
MODEL = ("vendor_id", "cpu family", "model", "stepping", "CPU ")  # the first four on x86, the last on Arm


def instructions() -> set[str]:
    """Return the kernel's names of the CPU's features (arch/x86/include/asm/cpufeatures.h); empty if it lists none."""
    return {word for line in _lines(FLAGS) for word in line.partition(":")[2].split()}


def kind() -> str:
    """Return a digest of the CPU's model and features, without what differs from core to core or over time."""
    return hashlib.sha256("\n".join(sorted(_lines(MODEL + FLAGS))).encode()).hexdigest()[:12]


def _lines(names: tuple[str, ...]) -> set[str]:
    """Return the lines that begin with one of these names, of all cores."""
    try:
        return {line for line in CPUINFO.read_text().splitlines() if line.startswith(names)}
    except OSError:
        return set()
