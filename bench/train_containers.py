"""Containers of the trainer's image for the contestants of ``bench.train``, and the references that they need."""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import urllib.request
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

from bench import harness
from bench.harness import ROOT
from orchestrator.cluster import SHARED
from orchestrator.config import Local
from orchestrator.docker import build, context, images
from orchestrator.docker.context import Variant
from orchestrator.docker.engine import Engine
from orchestrator.process import interrupts

OURS = "/measure"  # path of this package in containers
REFERENCES = ROOT / "build" / "bench"
EXAMPLE = "tensorflow2_synthetic_benchmark.py"
EXAMPLES = "examples/tensorflow2"  # in Horovod's sources
EXAMPLE_AT = f"https://raw.githubusercontent.com/horovod/horovod/v0.28.1/{EXAMPLES}/{EXAMPLE}"
EXAMPLE_SHA256 = "f59fdc77495f955ed22198a84e7d1127721b85731bb466427974069222aceb95"
LAST_LINES = 20
DEADLINE = 1200  # seconds for one contestant


class MissingReference(Exception):
    """A contestant is not on this machine; the message says how to get it."""


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
        with self.start(argv, environment, stderr=subprocess.STDOUT) as running:
            output, _ = running.communicate()
        if running.returncode:
            last = "\n    ".join(output.splitlines()[-LAST_LINES:])
            raise RuntimeError(f"{' '.join(argv)}: exit code {running.returncode}:\n    {last}")
        return output

    @contextmanager
    def start(
        self, argv: Sequence[str], environment: Mapping[str, str] | None = None, stderr: int = subprocess.DEVNULL
    ) -> Iterator["subprocess.Popen[str]"]:
        """Start a program in a container, and remove the container if the block raises, also by Ctrl-C and SIGTERM."""
        name = f"bench-{uuid.uuid4().hex}"
        command = self.command(name, argv, environment)
        with ExitStack() as ended:
            with interrupts.held():
                running = ended.enter_context(
                    subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
                )
                ended.push(lambda kind, *_: _remove(running, name) if kind else None)
            yield running

    def json(self, argv: Sequence[str], environment: Mapping[str, str] | None = None) -> Any:
        """Run a program in a container and parse its last line as JSON."""
        return json.loads(self.run(argv, environment).strip().splitlines()[-1])

    def command(self, name: str, argv: Sequence[str], environment: Mapping[str, str] | None = None) -> list[str]:
        """Return the command for the container ``name`` without network, as this user.

        Its host name resolves: Gloo needs that.
        """
        mounts = {f"{ROOT}/bench": f"{OURS}/bench", str(REFERENCES): "/references"}
        if self.own_sources:
            mounts[f"{ROOT}/orchestrator"] = "/opt/orchestrator/src/orchestrator"
        own = {"HOME": SHARED, "USER": "bench", "TF_CPP_MIN_LOG_LEVEL": "2", **(environment or {})}
        variables = {**own, "PYTHONPATH": f"{OURS}:{own.get('PYTHONPATH', '')}".rstrip(":")}
        return [
            *("docker", "run", "--name", name, "--rm", "--init", "--entrypoint", ""),
            *("--network", "none", "--hostname", "localhost"),
            *("--user", f"{os.getuid()}:{os.getgid()}", "--cpuset-cpus", ",".join(map(str, self.cores))),
            *("--volume", f"{self.shared}:{SHARED}"),
            *(part for here, there in mounts.items() for part in ("--volume", f"{here}:{there}:ro")),
            *(part for name, value in variables.items() for part in ("--env", f"{name}={value}")),
            *(self.image, "timeout", "--kill-after", "10", str(DEADLINE), *argv),
        ]


def _remove(running: "subprocess.Popen[str]", container: str) -> None:
    running.kill()  # first, since it may be about to create the container
    running.wait()
    subprocess.run(["docker", "rm", "--force", container], check=False, capture_output=True)


@contextmanager
def on_all_cores(wanted: str | None) -> Iterator[Place]:
    """Provide containers on all cores: of the image ``wanted`` with the trainer of this working tree, or node image."""
    harness.exit_on_sigterm()
    with tempfile.TemporaryDirectory() as shared:
        cores = tuple(sorted(os.sched_getaffinity(0)))
        yield Place(wanted or image(), cores, Path(shared), own_sources=bool(wanted))


def image() -> str:
    """Return the node image, which `make test` builds too and which contains the trainer."""
    with tempfile.TemporaryDirectory() as logs:
        return build.ensure(Engine(), "node", Variant(Local().base_image), Path(logs) / "image.log")


def pytorch_image() -> str:
    """Return the node image with PyTorch. Raises MissingReference if it is not built."""
    tag = context.tag("node", Variant(Local().base_image, "pytorch"))
    if not images.find(Engine(), tag):
        raise MissingReference(f"image {tag} is not built: `python -m tests.images pytorch` builds it")
    return tag


def example() -> str:
    """Return the path of Horovod's example in a container: from the sources in HOROVOD_SOURCE, else downloaded.

    Raises MissingReference if the script cannot be downloaded, or differs.
    """
    path = REFERENCES / EXAMPLE
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        _fetch(path)
    if hashlib.sha256(path.read_bytes()).hexdigest() != EXAMPLE_SHA256:
        raise MissingReference(f"{path}: not the script of Horovod 0.28.1: remove it")
    return f"/references/{EXAMPLE}"


def _fetch(path: Path) -> None:
    try:
        if source := os.environ.get("HOROVOD_SOURCE"):
            shutil.copyfile(Path(source, EXAMPLES, EXAMPLE), path)
            return
        with urllib.request.urlopen(EXAMPLE_AT, timeout=30) as answer:
            path.write_bytes(answer.read())
    except (OSError, HTTPException) as error:
        raise MissingReference(f"{error}: set HOROVOD_SOURCE to the sources of Horovod 0.28.1") from error
