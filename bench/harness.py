"""What the benches share: the command with a state directory of its own, and a table of what was measured."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
COMMAND = Path(sys.executable).with_name("orchestrator")
MNIST = ROOT / "tests" / "data" / "mnist"
CLUSTER = ("--cluster", "bench")


@dataclass(frozen=True)
class Row:
    """A line of the table; ``ratio`` is to what ``beside`` names."""

    what: str
    goal: str
    measured: str
    ratio: str
    beside: str


@dataclass
class Bench:
    """The command, with a state directory of its own."""

    state: Path

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "XDG_STATE_HOME": str(self.state)}

    def run(self, *words: str) -> str:
        argv = [str(COMMAND), words[0], *CLUSTER, *words[1:]]
        return subprocess.run(argv, env=self.environment, check=True, capture_output=True, text=True).stdout

    def deploy(self, nodes: int) -> dict[str, Any]:
        made: dict[str, Any] = json.loads(self.run("deploy", "--nodes", str(nodes), "--json"))
        return made

    def first_line(self, *words: str) -> float:
        """Seconds from the return key to the first line that a rank writes; the command is then left to its end."""
        argv = [str(COMMAND), words[0], *CLUSTER, *words[1:]]
        started = time.perf_counter()
        with subprocess.Popen(argv, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as running:
            assert running.stdout
            running.stdout.readline()
            seconds = time.perf_counter() - started
            running.communicate()
        return seconds


def timed(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


@contextmanager
def bench() -> Iterator[Bench]:
    with tempfile.TemporaryDirectory() as state:
        current = Bench(Path(state))
        try:
            yield current
        finally:
            current.run("teardown")


def write(name: str, rows: Sequence[Row], rounds: int) -> None:
    """Write build/NAME.md, and show it."""
    lines = ["| what | goal | measured | ratio | to |", "|---|---|---|---|---|"]
    lines += [f"| {r.what} | {r.goal} | {r.measured} | {r.ratio} | {r.beside} |" for r in rows]
    page = ROOT / "build" / f"{name}.md"
    page.parent.mkdir(exist_ok=True)
    page.write_text(f"{os.cpu_count()} cores, median of {rounds} rounds\n\n" + "\n".join(lines) + "\n")
    print(page.read_text())
