"""Run the installed command as a user does, and list the Docker resources of its clusters."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

COMMAND = Path(sys.executable).with_name("orchestrator")
LABEL = "label=orchestrator.cluster"
CLUSTERS = (
    *("e2e", "e2e-second", "e2e-notebook", "e2e-hosts-nodes", "e2e-watched", "e2e-grafana"),
    "e2e-shared",
)
GROUPS = ("data", "packages", "study")  # commands with subcommands


class Cli:
    """The `orchestrator` command with a state directory of its own."""

    def __init__(self, state: Path, inside: Sequence[str] = (), patience: float = 1.0) -> None:
        """Store ``inside``, a prefix of every command (e.g. of a namespace), and ``patience``, a factor of timeouts."""
        state.mkdir(exist_ok=True)
        self.state, self.inside, self.patience = state, list(inside), patience
        self.environment = {**os.environ, "XDG_STATE_HOME": str(state), "XDG_CACHE_HOME": str(state / "cache")}

    def __call__(self, *argv: str, code: int = 0, cluster: str = "e2e") -> "subprocess.CompletedProcess[str]":
        """Run a command to its end; fail with its whole output if its exit code is not ``code``."""
        words = self._words(argv, cluster)
        options: dict[str, Any] = {"env": self.environment, "cwd": self.state, "timeout": 900 * self.patience}
        finished = subprocess.run(words, capture_output=True, text=True, check=False, **options)
        transcript = f"{' '.join(words)}\n{finished.stdout}\n{finished.stderr}"
        assert finished.returncode == code, transcript
        print(transcript)
        return finished

    def json(self, *argv: str, cluster: str = "e2e") -> Any:
        return json.loads(self(*argv, "--json", cluster=cluster).stdout)

    def start(self, *argv: str, cluster: str = "e2e") -> "subprocess.Popen[str]":
        """Start a command in the background."""
        words = self._words(argv, cluster)
        return subprocess.Popen(
            words, env=self.environment, cwd=self.state, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    @contextmanager
    def dashboard(self, cluster: str) -> "Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]":
        """Run `orchestrator dashboard --json` within the context.

        Yields:
            The process, which holds the tunnel, and the object that it printed.
        """
        with self.start("dashboard", "--json", cluster=cluster) as process:
            try:
                assert process.stdout
                output = ""
                for line in process.stdout:
                    output += line
                    if line.startswith("}"):
                        break
                assert "{" in output, output
                yield process, json.loads(output[output.index("{") :])
            finally:
                process.kill()

    def _words(self, argv: Sequence[str], cluster: str) -> list[str]:
        named = 2 if argv[0] in GROUPS else 1
        return [*self.inside, str(COMMAND), *argv[:named], "--cluster", cluster, *argv[named:]]

    def processes(self, node: str) -> list[str]:
        """Return the command lines of runs on ``node``, without the command that lists them and the exporter."""
        listing = self("ssh", node, "--", "ps", "-u", "orchestrator", "-o", "args=").stdout.splitlines()
        exporter = "/opt/orchestrator/bin/python -m orchestrator.trainer.telemetry.exporter"
        ignored = ("ps -u", "sshd:", "bash -c ps", exporter)
        return [line for line in listing if not line.startswith(ignored)]


def docker(*argv: str) -> list[str]:
    return subprocess.run(["docker", *argv], capture_output=True, text=True, check=True).stdout.splitlines()


def resources_on_engine() -> list[str]:
    """List containers, networks and volumes of the story's clusters on the engine."""
    listings = [("ps", "--all"), ("network", "ls"), ("volume", "ls")]
    labels = [f"{LABEL}={name}" for name in CLUSTERS]
    return [line for words in listings for label in labels for line in docker(*words, "--quiet", "--filter", label)]


def wait_for(what: str, condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {seconds:.0f} s"
        time.sleep(0.2)
