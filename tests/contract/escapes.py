"""Try the known ways from root in a container to its host, and print whether each was refused.

Run as root in a local node: ``python3 escapes.py``. Exit code 1 if one of them works. No attempt changes a setting of
the host: files are opened for writing and get the value they have, and mounts end with the child that made them.
"""

import ctypes
import os
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

Attempt = Callable[[], str]
LIBC = ctypes.CDLL(None, use_errno=True)
CGROUPS = Path("/sys/fs/cgroup")
AT_FDCWD = -100
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 32, 4096, 16384, 1 << 18
CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 1 << 17, 1 << 25, 1 << 28, 1 << 29, 1 << 30
SIGCHLD = 17
# System call numbers of x86-64, the architecture of local nodes.
CLONE, SYSLOG, IOPL, INIT_MODULE, KEXEC = 56, 103, 172, 175, 246
PERF_EVENT, OPEN_BY_HANDLE, SETNS, FINIT_MODULE, BPF, OPEN_TREE, FSOPEN = 298, 304, 308, 313, 321, 428, 430
CORE_PATTERN = "/proc/sys/kernel/core_pattern"
HOST_FILES = (
    *(CORE_PATTERN, "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hotplug", "/proc/sys/kernel/sysrq"),
    *("/proc/sys/vm/panic_on_oom", "/proc/sys/fs/binfmt_misc/register", "/proc/sysrq-trigger", "/proc/kcore"),
    *("/proc/irq/default_smp_affinity", "/proc/bus/pci", "/dev/mem", "/dev/kmsg", "/sys/kernel/uevent_helper"),
    *("/sys/kernel/uevent_seqnum", "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/kernel/security"),
    *("/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/release_agent"),
)
WRITTEN_BACK = ("core_pattern", "modprobe", "panic_on_oom", "release_agent")
USUAL_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "console", "ptmx")


def require_success(result: int, name: str) -> int:
    """Return the result of a system call; raise OSError if it failed."""
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{name}: {os.strerror(error)}")
    return result


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    words = [word.encode() for word in (source, target, kind)]
    require_success(LIBC.mount(*words, ctypes.c_ulong(flags), data.encode()), f"mount {kind or source} on {target}")


def private_directory() -> str:
    """Return an empty directory; if possible in a private mount namespace, so that its mounts end with the process."""
    if LIBC.unshare(CLONE_NEWNS) == 0:
        mount("none", "/", flags=MS_REC | MS_PRIVATE)
    return tempfile.mkdtemp()


def calls(number: int, *arguments: object) -> Attempt:
    return lambda: f"gives {require_success(LIBC.syscall(ctypes.c_long(number), *arguments), f'system call {number}')}"


def unshares(flags: int) -> Attempt:
    return lambda: f"gives {require_success(LIBC.unshare(flags), 'unshare')}"


def runs(*argv: str) -> Attempt:
    def attempt() -> str:
        finished = subprocess.run(argv, capture_output=True, text=True, check=False)
        if finished.returncode:
            raise OSError(finished.stderr.strip() or f"exit code {finished.returncode}")
        return f"{' '.join(argv)} ends with success"

    return attempt


def writes(path: str) -> Attempt:
    """Return an attempt that opens a file and writes back its content or nothing, or makes a directory in one."""

    def attempt() -> str:
        if Path(path).is_dir():
            Path(tempfile.mkdtemp(dir=path)).rmdir()
            return f"{path} takes directories"
        with Path(path).open("r+b", buffering=0) as file:
            if path.endswith(WRITTEN_BACK):
                os.pwrite(file.fileno(), file.read(4096), 0)
        return f"{path} is writable"

    return attempt


def mounts(source: str, kind: str = "", flags: int = 0, data: str = "") -> Attempt:
    def attempt() -> str:
        directory = private_directory()
        mount(source, directory, kind, flags, data)
        agent = Path(directory) / "release_agent"
        return writes(str(agent))() if agent.exists() else f"{kind or source} is mounted"

    return attempt


def remounts(target: str, proof: str) -> Attempt:
    def attempt() -> str:
        private_directory()
        mount("none", target, flags=MS_REMOUNT | MS_BIND)
        return writes(proof)()

    return attempt


def any_of(attempts: Iterable[Attempt], none: str) -> str:
    """Return the output of the first attempt that works; raise OSError of the last, or of ``none`` without attempts."""
    refused = OSError(none)
    for attempt in attempts:
        try:
            return attempt()
        except OSError as error:
            refused = error
    raise refused


def release_agents() -> str:
    """Write to the release agent of every mounted cgroup hierarchy."""
    agents = map(str, CGROUPS.glob("*/release_agent"))
    return any_of(map(writes, agents), "no hierarchy here has a release_agent")


def host_cgroups() -> str:
    """Write to control groups outside the cluster's, through existing mounts."""
    if any(line.endswith(":/init.scope") for line in Path("/proc/1/cgroup").read_text().splitlines()):
        raise OSError("a namespace shows the node's own control groups only")
    mounted = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    own = {Path(path) for path in mounted if "/orchestrator" in path}
    files = [file for depth in ("", "*/", "*/*/") for file in CGROUPS.glob(f"{depth}cgroup.procs")]
    return any_of((writes(str(file)) for file in files if not own & set(file.parents)), "none is seen")


def all_devices() -> str:
    for path in CGROUPS.glob("devices/**/devices.allow"):
        path.write_text("a")
        return f"{path} gives every device"
    raise OSError("no such file is here")


def makes_device(kind: int, major: int, minor: int) -> Attempt:
    def attempt() -> str:
        path = f"{tempfile.mkdtemp()}/device"
        os.mknod(path, kind | 0o600, os.makedev(major, minor))
        with Path(path).open("rb", buffering=0) as device:
            device.read(1)
        return f"device {major}:{minor} was made and read"

    return attempt


def host_disks() -> str:
    numbers = [line.split()[:2] for line in Path("/proc/partitions").read_text().splitlines()[2:]]
    attempts = (makes_device(stat.S_IFBLK, int(major), int(minor)) for major, minor in numbers)
    return any_of(attempts, "no disk is seen")


def given_devices() -> str:
    nodes = [path for path in Path("/dev").iterdir() if path.name not in USUAL_DEVICES and not path.is_symlink()]
    devices = [path for path in nodes if path.is_block_device() or path.is_char_device()]
    return any_of((writes(str(path)) for path in devices), "/dev has only what every container has")


def host_processes() -> str:
    """Look for kernel threads, which are processes of the machine only."""
    kernel_threads = [
        path for path in Path("/proc").glob("[0-9]*") if (path / "comm").read_text().strip() == "kthreadd"
    ]
    return any_of((writes(f"{path}/mem") for path in kernel_threads), "no process of the machine is seen")


def root_of_first() -> str:
    if Path("/").samefile("/proc/1/root/"):
        raise OSError("process 1 has the files of the node")
    return "process 1 has other files"


def namespace_of_first() -> str:
    with Path("/proc/1/ns/mnt").open("rb") as file:
        return calls(SETNS, file.fileno(), 0)()


def module_file() -> str:
    with tempfile.TemporaryFile() as file:
        return calls(FINIT_MODULE, file.fileno(), b"", 0)()


def cloned_user() -> str:
    if require_success(LIBC.syscall(CLONE, CLONE_NEWUSER | CLONE_NEWNS | SIGCHLD, 0, 0, 0, 0), "clone") == 0:
        os._exit(0)
    return "clone makes a user namespace"


def by_handle() -> str:
    """Open inode 2, the root of the file system of /etc/hosts, by its handle: Docker's first escape, of 2014."""
    handle = b"".join(number.to_bytes(4, "little") for number in (8, 1, 2, 0))
    with Path("/etc/hosts").open("rb") as file:
        return calls(OPEN_BY_HANDLE, file.fileno(), handle, 0)()


def key_ring() -> str:
    if not Path("/proc/keys").read_text():
        raise OSError("/proc/keys is empty")
    return "/proc/keys lists the machine's keys"


def engine_socket() -> str:
    for path in (f"/run/{name}" for name in ("docker.sock", "containerd/containerd.sock", "podman/podman.sock")):
        if Path(path).exists():
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(path)
                return f"{path} answers"
    raise OSError("no engine listens here")


def raw_socket() -> str:
    """Open a raw socket, by which a container could take another container's address."""
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP):
        return "a raw socket was opened"


MAP_OF_BPF = b"".join(number.to_bytes(4, "little") for number in (2, 4, 4, 1))
CLOCK_OF_PERF = b"".join(number.to_bytes(4, "little") for number in (1, 112)) + bytes(104)
ATTEMPTS: dict[str, Attempt] = {
    **{f"write {path}": writes(path) for path in HOST_FILES},
    "remount /proc/sys": remounts("/proc/sys", CORE_PATTERN),
    "remount /sys": remounts("/sys", "/sys/kernel/uevent_helper"),
    "remount cgroups": remounts("/sys/fs/cgroup", "/sys/fs/cgroup"),
    "mount proc": mounts("proc", "proc"),
    "mount sysfs": mounts("sysfs", "sysfs"),
    "mount --bind": mounts("/etc", flags=MS_BIND),
    "mount tmpfs": mounts("none", "tmpfs"),
    "mount cgroup v1 memory": mounts("none", "cgroup", data="memory"),
    "mount cgroup v1 devices": mounts("none", "cgroup", data="devices"),
    "mount cgroup v1 name=systemd": mounts("none", "cgroup", data="none,name=systemd"),
    "mount cgroup2": mounts("none", "cgroup2"),
    "fsopen": calls(FSOPEN, b"tmpfs", 0),
    "open_tree": calls(OPEN_TREE, AT_FDCWD, b"/", 1),
    "release_agent of mounted hierarchies": release_agents,
    "control groups of the machine": host_cgroups,
    "devices.allow": all_devices,
    "mknod of the machine's disks": host_disks,
    "mknod of /dev/mem": makes_device(stat.S_IFCHR, 1, 1),
    "devices in /dev": given_devices,
    "init_module": calls(INIT_MODULE, b"\x7fELF", 4, b""),
    "finit_module": module_file,
    "memory of the machine's processes": host_processes,
    "/proc/1/root": root_of_first,
    "setns to process 1": namespace_of_first,
    "nsenter": runs("nsenter", "--target", "1", "--all", "true"),
    "unshare a mount namespace": unshares(CLONE_NEWNS),
    "unshare a user namespace": unshares(CLONE_NEWUSER),
    "unshare a user and a control group namespace": unshares(CLONE_NEWUSER | CLONE_NEWCGROUP | CLONE_NEWNS),
    "unshare a process namespace": unshares(CLONE_NEWPID),
    "unshare a network namespace": unshares(CLONE_NEWNET),
    "unshare --map-root-user": runs("unshare", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"),
    "clone a user namespace": cloned_user,
    "open_by_handle_at": by_handle,
    "bpf": calls(BPF, 0, MAP_OF_BPF, len(MAP_OF_BPF)),
    "perf_event_open": calls(PERF_EVENT, CLOCK_OF_PERF, -1, 0, -1, 0),
    "syslog": calls(SYSLOG, 3, ctypes.create_string_buffer(64), 64),
    "kexec_load": calls(KEXEC, 0, 0, 0, 0),
    "iopl": calls(IOPL, 3),
    "/proc/keys": key_ring,
    "Docker's socket": engine_socket,
    "raw socket": raw_socket,
}


def run_in_child(attempt: Attempt) -> tuple[bool, str]:
    """Run an attempt in a child, which ends with its namespaces and mounts; return whether it worked and its output."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            text, code = attempt(), 1
        except OSError as error:
            text, code = str(error), 0
        os.write(writing, text.encode())
        os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as answer:
        text = answer.read()
    return os.waitpid(child, 0)[1] != 0, text or "the child was killed"


if __name__ == "__main__":
    answers = {name: run_in_child(attempt) for name, attempt in ATTEMPTS.items()}
    for name, (is_open, text) in answers.items():
        print(f"{'OPEN   ' if is_open else 'refused'}  {name}: {text}")
    sys.exit(any(is_open for is_open, _ in answers.values()))
