"""A private Docker Engine next to the machine's: tests restart it and fill its disk."""

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

BRIDGE, NAMESPACE = "orch-test", "orch-test"
MACHINE = dict(os.environ)  # reaches the machine's engine while DOCKER_HOST names the private one


@dataclass
class PrivateEngine:
    """dockerd with its own data, socket and bridge.

    ``inside`` is a command prefix with which its nodes are reachable; ``wrapper`` is a command that runs dockerd.
    """

    root: Path
    inside: list[str]
    options: list[str]
    wrapper: tuple[str, ...] = ()
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def host(self) -> str:
        return f"unix://{self.root}/docker.sock"

    def start(self) -> None:
        words = ["dockerd", "--data-root", f"{self.root}/data", "--exec-root", f"{self.root}/exec", "--host", self.host]
        argv = [*self.inside, *self.wrapper, *words, "--pidfile", f"{self.root}/pid", *self.options]
        with (self.root / "log").open("ab") as log:
            self.process = subprocess.Popen(argv, stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + 60
        while subprocess.run(["docker", "--host", self.host, "info"], capture_output=True, check=False).returncode:
            assert time.monotonic() < deadline, (self.root / "log").read_text()[-2000:]
            time.sleep(0.2)

    def stop(self) -> None:
        if self.process:
            self.process.terminate()
            self.process.wait(60)

    def take_image(self, tag: str) -> None:
        """Copy an image from the machine's engine."""
        with subprocess.Popen(["docker", "save", tag], stdout=subprocess.PIPE, env=MACHINE) as save:
            subprocess.run(["docker", "--host", self.host, "load"], stdin=save.stdout, check=True, capture_output=True)


@contextlib.contextmanager
def isolated_engine(root: Path, wrapper: tuple[str, ...] = ()) -> Iterator[PrivateEngine]:
    """Run an engine in its own network namespace: it may set packet filters, and its nodes reach no other network."""
    _ip("netns", "add", NAMESPACE)
    inside = ["nsenter", f"--net=/run/netns/{NAMESPACE}"]  # `ip netns exec` would hide the cgroups
    try:
        subprocess.run([*inside, "ip", "link", "set", "lo", "up"], check=True)
        with _running(PrivateEngine(root, inside, [], wrapper)) as engine:
            yield engine
    finally:
        _ip("netns", "delete", NAMESPACE)


@contextlib.contextmanager
def engine_on_host_network(root: Path) -> Iterator[PrivateEngine]:
    """Run an engine on the machine's network, which builds can use; it leaves packet filters unchanged."""
    _ip("link", "add", "name", BRIDGE, "type", "bridge")
    try:
        _ip("addr", "add", "10.202.0.1/24", "dev", BRIDGE)
        with _running(PrivateEngine(root, [], ["--bridge", BRIDGE, "--iptables=false"])) as engine:
            yield engine
    finally:
        _ip("link", "delete", BRIDGE)


@contextlib.contextmanager
def _running(engine: PrivateEngine) -> Iterator[PrivateEngine]:
    os.environ["DOCKER_HOST"] = engine.host
    try:
        engine.start()
        yield engine
    finally:
        os.environ.pop("DOCKER_HOST")
        os.environ.update(MACHINE)
        engine.stop()


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@contextlib.contextmanager
def short_directory() -> Iterator[Path]:
    """Make a directory with a short path: paths of sockets have at most 108 characters."""
    with tempfile.TemporaryDirectory(prefix="engine-", ignore_cleanup_errors=True) as directory:
        yield Path(directory)


@contextlib.contextmanager
def small_disk(directory: Path, size: str) -> Iterator[Path]:
    """Mount a file system of ``size`` in memory at ``directory``."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(directory)], check=True)
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


def fill(disk: Path) -> None:
    """Shrink a :func:`small_disk` until 20 MiB are free, which takes no memory."""
    status = os.statvfs(disk)
    used = (status.f_blocks - status.f_bfree) * status.f_frsize
    subprocess.run(["mount", "-o", f"remount,size={used + (20 << 20)}", str(disk)], check=True)
