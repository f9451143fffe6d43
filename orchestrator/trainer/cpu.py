"""Instruction sets of the CPU, as Linux lists them. Standard library only."""

from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
FLAGS = ("flags", "Features")  # first word of the line, on x86 and on Arm


def instructions() -> set[str]:
    """Return the kernel's names of the CPU's features (arch/x86/include/asm/cpufeatures.h); empty if it lists none."""
    try:
        lines = CPUINFO.read_text().splitlines()
    except OSError:
        return set()
    return {word for line in lines if line.startswith(FLAGS) for word in line.partition(":")[2].split()}
