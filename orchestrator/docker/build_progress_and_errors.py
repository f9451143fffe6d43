"""Follow an image build: write its log, show its last line, and tell a full disk from other failures."""

import re
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from orchestrator import progress
from orchestrator.docker import disk_space, silence_timeout
from orchestrator.docker.engine import Engine
from orchestrator.errors import LAST_LINES, CommandFailed

LOOK_SECONDS, SILENT_SECONDS = 10.0, 900.0
FULL = ("no space left on device", "disk quota exceeded")
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def follow(engine: Engine, log: Path, step: progress.Step, messages: Iterator[dict[str, Any]]) -> None:
    """Follow a build to its end.

    Args:
        engine: Docker Engine that builds.
        log: File to which the output is appended.
        step: Step of the progress, which shows the last line.
        messages: Messages of the engine.

    Raises:
        PreflightError: The disk is full.
        CommandFailed: The build fails, or is silent for too long.
    """
    build = _Build(engine, log, step)
    try:
        with log.open("ab", buffering=0) as file:
            for message in silence_timeout.with_silence_timeout(messages, LOOK_SECONDS, build.check_while_silent):
                build.record(message, file)
    except CommandFailed as error:
        if any(text in line.lower() for line in build.tail for text in FULL):
            raise disk_space.full(engine, build.tail[-1]) from error
        error.hint = f"whole log: {log}"
        raise


@dataclass
class _Build:
    """A running image build; ``tail`` holds the last lines of its output."""

    engine: Engine
    log: Path
    step: progress.Step
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=LAST_LINES))

    def record(self, message: dict[str, Any], file: IO[bytes]) -> None:
        """Write the text of a message of the engine to the log. Raises CommandFailed if it is an error."""
        text = ANSI.sub("", message.get("stream") or message.get("error") or "")
        with suppress(OSError):  # the log may be on the full disk
            file.write(text.encode())
        self.tail.extend(line for line in text.splitlines() if line.strip())
        if text.strip():
            self.step.detail(self.tail[-1])
        if "error" in message:
            raise self._failure("error")

    def check_while_silent(self, silent: float) -> None:
        """Check the disk while the build is silent: apt-get, for one, waits for ever on a full disk."""
        disk_space.require_not_full(self.engine)
        if silent > SILENT_SECONDS:
            raise self._failure(f"no output for {silent:.0f} s")

    def _failure(self, why: str) -> CommandFailed:
        return CommandFailed("build image", ["docker", "build", "."], why, list(self.tail), self.log)
