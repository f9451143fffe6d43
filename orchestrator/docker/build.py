"""Build images, with the base image pulled or bootstrapped, and export them to files for the nodes."""

import re
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import zstandard

from orchestrator import process, progress
from orchestrator.docker import context, silence
from orchestrator.docker.context import Variant
from orchestrator.docker.engine import Engine
from orchestrator.errors import LAST_LINES, CommandFailed, PreflightError
from orchestrator.schema.file import replaced

# Bytes: both images, the builder's layers and some room.
NEEDED_SPACE = {
    "tensorflow-cpu": 8 << 30,
    "tensorflow-gpu": 24 << 30,
    "pytorch-cpu": 14 << 30,
    "pytorch-gpu": 24 << 30,
    "both-cpu": 18 << 30,
}
USUALLY = {"cpu": "five", "gpu": "ten"}  # minutes on 2 cores
FULL = 64 << 20  # a disk with fewer bytes left counts as full
# Compared with gzip, nodes unpack it in a sixth of the time, and a fifth less crosses the uplink.
COMPRESSOR = zstandard.ZstdCompressor(level=3, threads=-1)
# Files that debian:12-slim leaves out, also from packages installed into it later.
SLIM = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "info", "locale", "man")]
LOOK_SECONDS, SILENT_SECONDS = 10.0, 900.0
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def ensure(engine: Engine, target: str, variant: Variant, log: Path) -> str:
    """Build an image unless it exists.

    Args:
        engine: Docker Engine to build with.
        target: Target in the Dockerfile, "trainer" or "node".
        variant: Which image: base image, framework and accelerator.
        log: Log file of the build.

    Returns:
        The tag of the image.

    Raises:
        PreflightError: The disk has too little space, or the base image is not available.
        CommandFailed: The build failed.
    """
    name = context.tag(target, variant)
    if engine.has_image(name):
        return name
    free, needed = _free(engine), NEEDED_SPACE[str(variant)]
    if free is not None and free < needed:
        raise _disk_full(engine, f"{free / 2**30:.1f} GiB free, the images need {needed >> 30}")
    with context.context() as archive:
        own = _own(engine, variant, log) if variant.own else None
        arguments = {
            "BASE": own or _base(engine, variant.base_image, log),
            "FRAMEWORK": variant.framework,
            "ACCELERATOR": variant.accelerator,
            "DIGEST": context.digest(variant),
            **context.host_settings(),
        }
        dockerfile, minutes = ("own.Dockerfile", "two") if own else ("Dockerfile", USUALLY[variant.accelerator])
        with progress.step(f"Building image {name} (once; about {minutes} minutes on 2 cores)") as step:
            _Build(engine, log, step).follow(engine.build(archive, name, target, arguments, dockerfile))
    return name


def _own(engine: Engine, variant: Variant, log: Path) -> str:
    """Return the user's image: a local one, else pulled, or built from a Dockerfile on the trainer image."""
    name = context.own_tag(variant.dockerfile) if variant.dockerfile else str(variant.own)
    if engine.has_image(name):
        return name
    if not variant.dockerfile:
        with progress.step(f"Pulling {name}"):
            if not engine.pull(name):
                raise PreflightError(
                    f"image: this Docker Engine has no {name}, and no registry has it", "check the name"
                )
        return name
    arguments = {"BASE": ensure(engine, "trainer", replace(variant, own=None), log), **context.host_settings()}
    with (
        context.context(variant.dockerfile) as archive,
        progress.step(f"Building image {name} of {variant.dockerfile}") as step,
    ):
        _Build(engine, log, step).follow(engine.build(archive, name, None, arguments, variant.dockerfile.name))
    return name


@dataclass
class _Build:
    """A running image build; ``tail`` holds the last lines of its output."""

    engine: Engine
    log: Path
    step: progress.Step
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=LAST_LINES))

    def follow(self, messages: Iterator[dict[str, Any]]) -> None:
        try:
            with self.log.open("ab", buffering=0) as file:
                for message in silence.with_silence_timeout(messages, LOOK_SECONDS, self._look):
                    self._hear(message, file)
        except CommandFailed as error:
            if any("no space left on device" in line.lower() for line in self.tail):
                raise _disk_full(self.engine, self.tail[-1]) from error
            error.hint = f"whole log: {self.log}"
            raise

    def _hear(self, message: dict[str, Any], file: IO[bytes]) -> None:
        text = ANSI.sub("", message.get("stream") or message.get("error") or "")
        with suppress(OSError):  # the log may be on the full disk
            file.write(text.encode())
        self.tail.extend(line for line in text.splitlines() if line.strip())
        if text.strip():
            self.step.detail(self.tail[-1])
        if "error" in message:
            raise self._failure("error")

    def _look(self, silent: float) -> None:
        """Check the disk while the build is silent: apt-get, for one, waits for ever on a full disk."""
        free = _free(self.engine)
        if free is not None and free < FULL:
            raise _disk_full(self.engine, "no space is left for the image build")
        if silent > SILENT_SECONDS:
            raise self._failure(f"no output for {silent:.0f} s")

    def _failure(self, why: str) -> CommandFailed:
        return CommandFailed("build image", ["docker", "build", "."], why, list(self.tail), self.log)


def _free(engine: Engine) -> int | None:
    """Return the free bytes on the engine's disk; None if the engine is on another machine."""
    return shutil.disk_usage(engine.data_root).free if engine.data_root.exists() else None


def _disk_full(engine: Engine, detail: str) -> PreflightError:
    hint = "`docker system df` shows what uses the space, `docker system prune` frees what is unused"
    return PreflightError(f"the disk of {engine.data_root} is full: {detail}", hint)


def substitute(base_image: str) -> str:
    """Return the name of the image that mmdebstrap makes in place of ``base_image``."""
    return f"orchestrator-base:{base_image.partition('@')[0].replace(':', '-').replace('/', '-')}"


def _base(engine: Engine, base_image: str, log: Path) -> str:
    """Return the base image: a local one, else pulled, else made with mmdebstrap under another name."""
    name = substitute(base_image)
    for local in (base_image, name):
        if engine.has_image(local):
            return local
    with progress.step(f"Pulling {base_image}") as step:
        if engine.pull(base_image):
            return base_image
        step.detail("no registry answers")
    with progress.step(f"Building a base image with mmdebstrap instead of {base_image}"):
        _bootstrap(engine, base_image, name, log)
    return name


def _bootstrap(engine: Engine, base_image: str, name: str, log: Path) -> None:
    if not base_image.startswith("debian:12"):
        raise PreflightError(f"no registry has {base_image}, and only debian:12 can be made here", "check the name")
    if not shutil.which("mmdebstrap"):
        raise PreflightError(
            f"no registry answers for {base_image}, and mmdebstrap, which could make it, is not installed",
            "`sudo apt-get install mmdebstrap`, or connect to a registry",
        )
    with tempfile.NamedTemporaryFile(suffix=".tar") as archive:
        process.run("make base image", ["mmdebstrap", "--variant=minbase", *SLIM, "bookworm", archive.name], log)
        with Path(archive.name).open("rb") as file:
            engine.load_root_filesystem(file, name)


def archive(engine: Engine, tag: str, path: Path, on_bytes: Callable[[int], None] = lambda _: None) -> None:
    """Write the files of an image to a tar archive compressed with zstd, atomically and readable by its owner alone.

    Does nothing if ``path`` exists.

    Args:
        engine: Docker Engine that has the image.
        tag: Tag of the image.
        path: File to write.
        on_bytes: Called with the number of bytes done, before compression.

    Raises:
        CommandFailed: The engine cannot export the image.
        PreflightError: The file cannot be written.
    """
    if path.exists():
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with replaced(path, 0o600) as file, COMPRESSOR.stream_writer(file, closefd=False) as compressed:
            done = 0
            for piece in engine.export(tag):
                done += compressed.write(piece)
                on_bytes(done)
    except OSError as error:
        raise PreflightError(f"{error.filename or path}: {error.strerror}", f"free space in {path.parent}") from error
