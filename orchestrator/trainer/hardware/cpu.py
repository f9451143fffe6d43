"""Which instructions the CPU has, as Linux tells. Standard library alone."""

from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
FLAGS = ("flags", "Features")  # what a line of them begins with, on x86 and on Arm


def instructions() -> set[str]:
    """In the kernel's words (arch/x86/include/asm/cpufeatures.h); none where it says nothing."""
    try:
        lines = CPUINFO.read_text().splitlines()
    except OSError:
        return set()
    return {word for line in lines if line.startswith(FLAGS) for word in line.partition(":")[2].split()}
