"""Where the contestants of ``bench.train`` run: containers of the trainer's image, and the references they need."""

import hashlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.harness import ROOT
from orchestrator import build
from orchestrator.cluster import SHARED
from orchestrator.config import Local
from orchestrator.engine import Engine

OURS = "/measure"  # in containers, with this package
REFERENCES = ROOT / "build" / "bench"
TORCH, TF_KERAS = "torch==2.15.0", "tf_keras==2.21.0"
PYTHON_OF_THE_IMAGE = "3.11"  # Debian 12's, which PyTorch runs on, beside that with TensorFlow
EXAMPLE = "tensorflow2_synthetic_benchmark.py"
EXAMPLE_AT = f"https://raw.githubusercontent.com/horovod/horovod/v0.28.1/examples/tensorflow2/{EXAMPLE}"
EXAMPLE_SHA256 = "f59fdc77495f955ed22198a84e7d1127721b85731bb466427974069222aceb95"
LAST_LINES = 20
DEADLINE = 1200  # seconds for one contestant


@dataclass(frozen=True)
class Place:
    """Containers of ``image`` on the first ``cores`` of this machine, with ``shared`` for the nodes' shared storage.

    Where ``own_sources``, the worker side of this working tree replaces that of the image.
    """

    image: str
    cores: tuple[int, ...]
    shared: Path
    own_sources: bool = False

    def run(self, argv: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
        """What a program in a container wrote. Raises RuntimeError with its last lines where it failed."""
        command = self.command(argv, environment)
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode:
            last = "\n    ".join(done.stdout.splitlines()[-LAST_LINES:])
            raise RuntimeError(f"{' '.join(argv)}: exit code {done.returncode}:\n    {last}")
        return done.stdout

    def json(self, argv: Sequence[str], environment: Mapping[str, str] | None = None) -> Any:
        """The last line that it wrote."""
        return json.loads(self.run(argv, environment).strip().splitlines()[-1])

    def command(self, argv: Sequence[str], environment: Mapping[str, str] | None = None) -> list[str]:
        """No network, one's own user, a host name that resolves: Gloo dies where it does not."""
        mounts = {f"{ROOT}/bench": f"{OURS}/bench", str(REFERENCES): "/references"}
        if self.own_sources:
            mounts[f"{ROOT}/orchestrator"] = "/opt/orchestrator/src/orchestrator"
        given = {"HOME": SHARED, "USER": "bench", "TF_CPP_MIN_LOG_LEVEL": "2", **(environment or {})}
        variables = {**given, "PYTHONPATH": f"{OURS}:{given.get('PYTHONPATH', '')}".rstrip(":")}
        return [
            *("docker", "run", "--rm", "--init", "--network", "none", "--hostname", "localhost", "--entrypoint", ""),
            *("--user", f"{os.getuid()}:{os.getgid()}", "--cpuset-cpus", ",".join(map(str, self.cores))),
            *("--volume", f"{self.shared}:{SHARED}"),
            *(part for here, there in mounts.items() for part in ("--volume", f"{here}:{there}:ro")),
            *(part for name, value in variables.items() for part in ("--env", f"{name}={value}")),
            *(self.image, "timeout", "--kill-after", "10", str(DEADLINE), *argv),
        ]


def image() -> str:
    """The node image, which `make test` builds too, and which holds the trainer."""
    with tempfile.TemporaryDirectory() as logs:
        return build.ensure(Engine(), "node", Local().base_image, Path(logs) / "image.log")


def torch() -> str:
    """Where a container finds PyTorch: what the package index has, which can be gigabytes of GPU libraries."""
    return _installed(TORCH)


def tf_keras() -> str:
    """Where a container finds the Keras that Horovod's example was written for, as continued by TensorFlow."""
    return _installed(TF_KERAS, "--no-deps")


def _installed(requirement: str, *options: str) -> str:
    """Wheels for the image's Python, whatever that of this machine; once."""
    name = requirement.replace("==", "-")
    if not (REFERENCES / name).exists():
        print(f"installing {requirement} into build/bench (once)", file=sys.stderr)
        REFERENCES.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=REFERENCES) as unfinished:
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
            wanted = ["--only-binary", ":all:", "--python-version", PYTHON_OF_THE_IMAGE, *_platforms(), *options]
            subprocess.run([*pip, "--target", f"{unfinished}/{name}", *wanted, requirement], check=True)
            Path(unfinished, name).rename(REFERENCES / name)
    return f"/references/{name}"


def _platforms() -> list[str]:
    """All that Debian 12, with glibc 2.36, can load: pip takes the names of old platforms for other platforms."""
    machine = platform.machine()
    names = [f"manylinux2014_{machine}", *(f"manylinux_2_{minor}_{machine}" for minor in range(17, 37))]
    return [part for name in names for part in ("--platform", name)]


def example() -> str:
    """Where a container finds Horovod's example. Its source distribution lacks the examples.

    Ends the program where the script is neither there nor reachable, or another one.
    """
    path = REFERENCES / EXAMPLE
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with urllib.request.urlopen(EXAMPLE_AT, timeout=30) as answer:
                path.write_bytes(answer.read())
        except (OSError, urllib.error.URLError) as error:
            sys.exit(f"{EXAMPLE_AT}: {error}: put Horovod 0.28.1's {EXAMPLE} into {REFERENCES}")
    if hashlib.sha256(path.read_bytes()).hexdigest() != EXAMPLE_SHA256:
        sys.exit(f"{path}: not the script of Horovod 0.28.1: remove it")
    return f"/references/{EXAMPLE}"
