"""Fixtures of unit tests: no network but loopback, the CLI as a program, stand-ins for external tools."""

import contextlib
import importlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import HealthCheck, settings

from orchestrator import cli as command_line
from orchestrator.cli import main
from orchestrator.docker.engine import Engine
from tests import waiting
from tests.stand_ins import docker_stand_in

Connect = Callable[..., Engine]
Cli = Callable[..., "subprocess.CompletedProcess[str]"]
StandIn = Callable[[str, str], Path]
Start = Callable[..., "subprocess.Popen[str]"]
# `make test` tries a few damaged files, always the same; `make fuzz` tries 10,000 others of each kind.
UNHURRIED: dict[str, Any] = {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck)}
settings.register_profile("fast", max_examples=60, derandomize=True, **UNHURRIED)
settings.register_profile("fuzz", max_examples=10_000, print_blob=True, **UNHURRIED)
settings.load_profile("fast")

for module in set(command_line.MODULES.values()):  # once, not in every fork: see the fixture `cli`
    importlib.import_module(f"orchestrator.cli.{module}")
COMMAND = Path(sys.executable).with_name("orchestrator")  # as installed


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse connections to other machines."""
    connect = socket.socket.connect

    def connect_here(self: socket.socket, address: Any) -> None:
        if self.family != socket.AF_UNIX and not str(address[0]).startswith(("127.", "::1", "localhost")):
            raise AssertionError(f"a unit test reaches for the network: {address}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect_here)


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """Return a function that runs `orchestrator` in its own directory, with additional variables.

    It forks this process, which has imported everything already, and takes a tenth of the time of a new process.
    """

    def run(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            pid = os.fork()
            if pid == 0:
                os.environ.update(environment)
                _become_the_command(arguments, tmp_path, out.fileno(), err.fileno())
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(arguments, code, out.read(), err.read())

    return run


def interrupt_commands() -> None:
    """Interrupt the commands that the fixture `cli` runs, as Ctrl-C does, and wait until they have ended."""
    words = psutil.Process().cmdline()
    for process in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):  # other programs may end meanwhile
            if process.cmdline() == words:  # a fork, and no other program
                process.send_signal(signal.SIGINT)
                waiting.ends(process.pid)


def _become_the_command(arguments: tuple[str, ...], directory: Path, out: int, err: int) -> None:
    code: object = 1
    try:
        os.chdir(directory)
        sys.argv = ["orchestrator", *arguments]
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY))
        sys.stdout, sys.stderr = os.fdopen(out, "w"), os.fdopen(err, "w")
        main()
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """Return a function that puts a shell script in place of an external tool, in the only directory of the PATH."""
    directory = tmp_path / "stand-ins"

    def make(name: str, script: str) -> Path:
        directory.mkdir(exist_ok=True)
        path = directory / name
        path.write_text(f"#!/bin/sh\n# A stand-in for {name}.\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setenv("PATH", str(directory))
        return path

    return make


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Connect]:
    """Return a function that connects to a stand-in for Docker Engine with these answers."""
    with contextlib.ExitStack() as stack:

        def connect(answers: docker_stand_in.Answers | None = None) -> Engine:
            monkeypatch.setenv("DOCKER_HOST", stack.enter_context(docker_stand_in.listening(answers or {})))
            return Engine()

        yield connect


@pytest.fixture
def start() -> Iterator[Start]:
    """Return a function that starts Python programs, which write to a pipe or to ``output``; kill them at the end."""
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: str, output: Path | None = None, **environment: str) -> "subprocess.Popen[str]":
        with contextlib.ExitStack() as stack:
            target = stack.enter_context(output.open("a")) if output else subprocess.PIPE
            child = subprocess.Popen(
                [sys.executable, *arguments],
                env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
                stdin=subprocess.PIPE,
                stdout=target,
                stderr=target if output else None,
                text=True,
            )
        started.append(child)
        return child

    yield begin
    for child in started:
        _end(child)


def _end(child: "subprocess.Popen[str]") -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        for process in [*psutil.Process(child.pid).children(recursive=True), psutil.Process(child.pid)]:
            process.kill()
    child.wait()
    for pipe in (child.stdin, child.stdout):
        with contextlib.suppress(OSError):
            pipe.close() if pipe else None
