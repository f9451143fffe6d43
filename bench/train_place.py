"""Containers of the trainer's image for the contestants of ``bench.train``, and the references that they need."""

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
from orchestrator.cluster import SHARED
from orchestrator.config import Local
from orchestrator.docker import build
from orchestrator.docker.context import Variant
from orchestrator.docker.engine import Engine

OURS = "/measure"  # path of this package in containers
REFERENCES = ROOT / "build" / "bench"
TORCH, TF_KERAS = "torch==2.15.0", "tf_keras==2.21.0"
PYTHON_OF_THE_IMAGE = "3.11"  # Debian 12's, which runs PyTorch; TensorFlow has another in the image
EXAMPLE = "tensorflow2_synthetic_benchmark.py"
EXAMPLE_AT = f"https://raw.githubusercontent.com/horovod/horovod/v0.28.1/examples/tensorflow2/{EXAMPLE}"
EXAMPLE_SHA256 = "f59fdc77495f955ed22198a84e7d1127721b85731bb466427974069222aceb95"
LAST_LINES = 20
DEADLINE = 1200  # seconds for one contestant


@dataclass(frozen=True)
class Place:
    """Containers of ``image`` on the first ``cores`` of this machine, with ``shared`` as the nodes' shared storage.

    ``own_sources`` replaces the image's trainer by that of this working tree.
    """

    image: str
    cores: tuple[int, ...]
    shared: Path
    own_sources: bool = False

    def run(self, argv: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
        """Run a program in a container and return its output. Raises RuntimeError with its last lines if it fails."""
        command = self.command(argv, environment)
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode:
            last = "\n    ".join(done.stdout.splitlines()[-LAST_LINES:])
            raise RuntimeError(f"{' '.join(argv)}: exit code {done.returncode}:\n    {last}")
        return done.stdout

    def json(self, argv: Sequence[str], environment: Mapping[str, str] | None = None) -> Any:
        """Run a program in a container and parse its last line as JSON."""
        return json.loads(self.run(argv, environment).strip().splitlines()[-1])

    def command(self, argv: Sequence[str], environment: Mapping[str, str] | None = None) -> list[str]:
        """Return the command for a container without network, as this user, with a host name that resolves: Gloo needs
        one.
        """
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
    """Return the node image, which `make test` builds too and which contains the trainer."""
    with tempfile.TemporaryDirectory() as logs:
        return build.ensure(Engine(), "node", Variant(Local().base_image), Path(logs) / "image.log")


def torch() -> str:
    """Return the path of PyTorch in a container: the package index's build, which can include gigabytes of GPU
    libraries.
    """
    return _installed(TORCH)


def tf_keras() -> str:
    """Return the path in a container of the Keras of Horovod's example, in the version that TensorFlow maintains."""
    return _installed(TF_KERAS, "--no-deps")


def _installed(requirement: str, *options: str) -> str:
    """Install wheels for the image's Python, whatever that of this machine is; only once."""
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
    """Return pip's options for all platforms that Debian 12 (glibc 2.36) can load: pip does not imply older ones."""
    machine = platform.machine()
    names = [f"manylinux2014_{machine}", *(f"manylinux_2_{minor}_{machine}" for minor in range(17, 37))]
    return [part for name in names for part in ("--platform", name)]


def example() -> str:
    """Return the path of Horovod's example in a container. It is downloaded, since the source distribution lacks
    examples.

    Exits if the script cannot be downloaded, or differs.
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
