"""Hardware, kernel and system of this node, read from /proc and /sys. Standard library only: every node reports it.

A part that cannot be read is None or empty: it is recorded for people who repeat a run, and no run depends on it.
"""

import os
from contextlib import suppress
from pathlib import Path

CPU, SYSTEM = Path("/proc/cpuinfo"), Path("/etc/os-release")
MACHINE = Path("/sys/class/dmi/id/product_name")
NETWORK = Path("/sys/class/net")
NVIDIA = Path("/proc/driver/nvidia")


def report(interface: "str | None", memory: int) -> dict[str, object]:
    """Describe this node.

    Args:
        interface: Network interface with the node's private address.
        memory: Bytes of memory that the node may use.

    Returns:
        Fields of ``schema.Hardware``.
    """
    cpu = _fields(_text(CPU).partition("\n\n")[0])
    return {
        "machine": _text(MACHINE) or None,
        "architecture": os.uname().machine,
        "cpu_model": cpu.get("model name") or cpu.get("CPU part"),
        "cpu_flags": sorted((cpu.get("flags") or cpu.get("Features") or "").split()),
        "cpus": os.cpu_count() or 0,
        "memory": memory,
        "kernel": os.uname().release,
        "system": _fields(_text(SYSTEM), "=").get("PRETTY_NAME", "").strip('"') or None,
        "gpus": _gpus(),
        "gpu_driver": _gpu_driver(),
        "nic_driver": _nic_driver(interface),
        "nic_mbits": _nic_mbits(interface),
    }


def _text(path: Path) -> str:
    with suppress(OSError, ValueError):
        return path.read_text().strip()
    return ""


def _fields(text: str, separator: str = ":") -> dict[str, str]:
    pairs = (line.partition(separator) for line in text.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _gpus() -> list[str]:
    """Return the model of each GPU of NVIDIA's."""
    with suppress(OSError):
        return [_fields(_text(path / "information")).get("Model", "") for path in sorted((NVIDIA / "gpus").iterdir())]
    return []


def _gpu_driver() -> "str | None":
    """Return the version of NVIDIA's driver: the first word with a dot in its line of the kernel's file."""
    words = _text(NVIDIA / "version").partition("\n")[0].split()
    return next((word for word in words if word[0].isdigit() and "." in word), None)


def _nic_driver(interface: "str | None") -> "str | None":
    with suppress(OSError):
        return (NETWORK / (interface or "") / "device" / "driver").resolve(strict=True).name
    return None


def _nic_mbits(interface: "str | None") -> "int | None":
    """Return the speed of the interface in Mbit/s; None if it has none, as virtual ones of a cloud."""
    speed = _text(NETWORK / (interface or "") / "speed")
    return int(speed) if speed.isdigit() and int(speed) else None
