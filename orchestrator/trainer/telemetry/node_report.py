"""Report of a node about itself, as one JSON object on standard output; the control side judges it.

Run as ``python -m orchestrator.trainer.telemetry.node_report OWN_ADDRESS SHARED [PEER_ADDRESS ...]``. It imports only
the standard library, and no more of it than each node needs: every node of a cluster runs it at the same time.
"""

import contextlib
import fcntl
import json
import os
import socket
import struct
import sys
import threading
from pathlib import Path

from orchestrator.trainer.supervision import leftover_processes
from orchestrator.trainer.telemetry import hardware

SIOCGIFADDR = 0x8915  # linux/sockios.h
CGROUPS = Path("/sys/fs/cgroup")
FIRST_PROCESS_CGROUP = Path("/proc/1/cgroup")
# For the storage, which NFS serves only some time after its server has started, and for ssh to a peer: both may hang.
SHARED_SECONDS, PEER_SECONDS = 60.0, 30.0
AT_ONCE = 16  # ssh processes: each takes memory, on a head that may have little
DIGEST = Path("/opt/orchestrator/digest")


def report(address: str, shared: Path, peers: list[str]) -> dict[str, object]:
    """Describe this node and its state.

    Args:
        address: The node's private IPv4 address.
        shared: Directory of the shared storage.
        peers: Addresses that this node must be able to ssh into.

    Returns:
        Fields of ``schema.NodeReport``. Sizes are in bytes; ``interface`` is the one that carries ``address``, None if
        none does.
    """
    interface_name, memory, (answers, writable, free) = interface(address), _memory(), _storage(shared)
    return {
        "hostname": socket.gethostname(),
        "resolves": _resolves(socket.gethostname()),
        "interface": interface_name,
        "interfaces": [name for _, name in socket.if_nameindex()],
        "digest": DIGEST.read_text().strip() if DIGEST.exists() else None,
        "shared_answers": answers,
        "shared_writable": writable,
        "shared_free": free,
        "memory": memory,
        "memory_available": _memory_available(),
        "runs": leftover_processes.active_runs(),
        "unreachable": _unreachable(peers),
        "hardware": hardware.report(interface_name, memory),
    }


def _resolves(name: str) -> bool:
    with contextlib.suppress(OSError, UnicodeError):  # Linux permits 64 characters, names in DNS 63
        return bool(socket.gethostbyname(name))
    return False


def interface(address: str) -> "str | None":
    """Return the name of the network interface that carries the IPv4 ``address``; None if none does."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode())
            with contextlib.suppress(OSError):  # an interface without an IPv4 address
                if socket.inet_ntoa(fcntl.ioctl(probe, SIOCGIFADDR, request)[20:24]) == address:
                    return name
    return None


def _storage(shared: Path) -> tuple[bool, bool, int]:
    """Return whether the storage answers in time, whether it can be written, and its free bytes."""
    answers: list[tuple[bool, int]] = []

    def ask() -> None:
        answers.append((_writable(shared), _free(shared) if shared.is_dir() else 0))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(SHARED_SECONDS)
    return (True, *answers[0]) if answers else (False, False, 0)


def _writable(directory: Path) -> bool:
    trial = directory / f".writable-{socket.gethostname()}-{os.getpid()}"
    try:
        with contextlib.suppress(OSError), trial.open("xb", buffering=0) as file:
            return file.write(b"x") == 1
        return False
    finally:
        with contextlib.suppress(OSError):
            trial.unlink()


def _free(directory: Path) -> int:
    statistics = os.statvfs(directory)
    return statistics.f_bavail * statistics.f_frsize


def _memory() -> int:
    """Return the node's memory limit: MemTotal of the host or the limit of the node's own cgroup."""
    limits = [int((folder / limit).read_text()) for folder, limit, _ in _limited()]
    return min([_meminfo("MemTotal"), *limits])


def _memory_available() -> int:
    """Return MemAvailable of the host or the free memory in the node's own cgroup, whichever is smaller."""
    return min([_meminfo("MemAvailable"), *(_room(*files) for files in _limited())])


def _meminfo(key: str) -> int:
    lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    return int(lines[key].split()[0]) * 1024


def _limited() -> "list[tuple[Path, str, str]]":
    """Return folder, limit and use of the node's own cgroup, if it has a limit; by the kernel's version 2 or 1."""
    version_2 = (_node_cgroup(), "memory.max", "memory.current")
    version_1 = (CGROUPS / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes")
    existing = [files for files in (version_2, version_1) if (files[0] / files[1]).exists()][:1]
    return [files for files in existing if (files[0] / files[1]).read_text().strip() != "max"]


def _node_cgroup() -> Path:
    """Return the node's cgroup (version 2): the one in which its first process, systemd, has created its own."""
    lines = FIRST_PROCESS_CGROUP.read_text().splitlines()
    path = next((line.removeprefix("0::") for line in lines if line.startswith("0::")), "/")
    return CGROUPS / path.removesuffix("/init.scope").lstrip("/")


def _room(folder: Path, limit: str, used: str) -> int:
    """Return the memory left within the cgroup's limit; cached files count as free, since the kernel drops them."""
    stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    cached = sum(int(stat.get(f"total_{name}", stat[name])) for name in ("active_file", "inactive_file"))
    return int((folder / limit).read_text()) - int((folder / used).read_text()) + cached


def _unreachable(peers: list[str]) -> dict[str, str]:
    """Return the peers that the launcher could not ssh into, with ssh's message."""
    if not peers:
        return {}
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  the head's alone

    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        messages = dict(zip(peers, pool.map(_ssh, peers), strict=True))
    return {peer: message for peer, message in messages.items() if message is not None}


def _ssh(peer: str) -> "str | None":
    import subprocess  # noqa: PLC0415  the head's alone

    command = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", peer, "true"]
    try:
        finished = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=PEER_SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"no answer for {PEER_SECONDS:.0f} s"
    return None if finished.returncode == 0 else finished.stderr.strip() or f"ssh exit code {finished.returncode}"


if __name__ == "__main__":
    print(json.dumps(report(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])))
