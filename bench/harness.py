"""Common parts of the benchmarks: the command with its own state directory, and the table of results."""

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator import cpu_usage

ROOT = Path(__file__).parents[1]
OUTPUT = Path(os.environ.get("BENCH_OUTPUT") or ROOT / "build")  # of tables
COMMAND = Path(sys.executable).with_name("orchestrator")
MNIST = ROOT / "tests" / "data" / "mnist"
QUIET = 0.1  # share of the CPU that other processes may use during a measurement


@dataclass(frozen=True)
class Row:
    """A line of the table; ``ratio`` is ``measured`` divided by the value of ``reference``."""

    what: str
    goal: str
    measured: str
    ratio: str
    reference: str


def inspected(node: str, form: str) -> str:
    """Return what the Docker Engine knows of a node, in the form of a Go template."""
    argv = ["docker", "inspect", "--format", form, node]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


@dataclass
class Bench:
    """The orchestrator's command with its own state directory."""

    state: Path
    cluster: str = "bench"

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "XDG_STATE_HOME": str(self.state)}

    def argv(self, command: str, *words: str) -> list[str]:
        """Return the arguments of a command for this cluster; ``command`` may be several words, as "study run"."""
        return [str(COMMAND), *command.split(), "--cluster", self.cluster, *words]

    def run(self, *words: str) -> str:
        argv = self.argv(*words)
        completed = subprocess.run(argv, env=self.environment, check=False, capture_output=True, text=True)
        if completed.returncode:
            sys.exit(f"{' '.join(argv)}: exit code {completed.returncode}\n{completed.stderr}")
        return completed.stdout

    def deploy(self, nodes: int) -> dict[str, Any]:
        deployment: dict[str, Any] = json.loads(self.run("deploy", "--nodes", str(nodes), "--json"))
        return deployment

    def first_line(self, *words: str) -> float:
        """Return the seconds from the command to a rank's first line; exit if the command fails, or prints none."""
        return self.last_line("", 1, *words)

    def last_line(self, line: str, times: int, *words: str) -> float:
        """Return the seconds until ``line``, or any line if it is empty, was written ``times`` times.

        The command then runs to its end. Exit if it fails.
        """
        argv = self.argv(*words)
        started, seconds, remaining = time.perf_counter(), 0.0, times
        with subprocess.Popen(argv, env=self.environment, stdout=subprocess.PIPE, text=True) as running:
            assert running.stdout
            for output in running.stdout:
                remaining -= line in output
                seconds = seconds or (time.perf_counter() - started if remaining == 0 else 0.0)
        if running.returncode or remaining > 0:
            sys.exit(f"{' '.join(argv)}: exit code {running.returncode}, {remaining} of {times} lines are missing")
        return seconds


def timed(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def interleaved(contestants: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Measure all contestants in every round; every other round is reversed, since machines warm up and slow down."""
    measured: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds):
        for name in list(contestants)[:: -1 if number % 2 else 1]:
            others = cpu_usage.measure()
            measured[name].append(contestants[name]())
            warning = f" (others had {others:.0%} of the CPU just before)" if others > QUIET else ""
            print(f"round {number + 1}: {name}: {measured[name][-1]:.4g}{warning}", file=sys.stderr)
    return measured


def paired(measured: dict[str, list[float]], contestant: str, reference: str, goal: str, unit: str = "images/s") -> Row:
    """Compare two contestants: medians, the median of the rounds' ratios, and all of the ratios.

    Args:
        measured: Results of every round by contestant.
        contestant: The contestant.
        reference: The contestant to compare with.
        goal: The ratio to reach.
        unit: Unit of the results.

    Returns:
        A row of the table.
    """
    ratios = [own / other for own, other in zip(measured[contestant], measured[reference], strict=True)]
    all_of_them = " ".join(f"{ratio:.3f}" for ratio in ratios)
    own, other = statistics.median(measured[contestant]), statistics.median(measured[reference])
    ratio = f"{statistics.median(ratios):.3f}"
    return Row(
        contestant, goal, f"{_figure(own)} {unit}", ratio, f"{reference}, {_figure(other)} {unit} ({all_of_them})"
    )


def _figure(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def machine() -> str:
    """Return this machine's processor, and today's date."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
    return f"{model}, {time.strftime('%Y-%m-%d')}"


def exit_on_sigterm() -> None:
    """Let SIGTERM raise SystemExit, so that a bench removes what it started, as after Ctrl-C."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


@contextmanager
def bench(cluster: str = "bench") -> Iterator[Bench]:
    """Yield the command with a state of its own, whose cluster is removed at the end, also after Ctrl-C and SIGTERM.

    If that fails or is interrupted, the state stays: it is needed to remove the cluster.
    """
    if Path("cluster.yaml").exists():
        sys.exit(f"{Path.cwd()}/cluster.yaml: a bench would deploy its cluster: start the bench in another directory")
    current = Bench(Path(tempfile.mkdtemp(prefix="orchestrator-bench-")), cluster)
    exit_on_sigterm()
    try:
        yield current
    finally:
        try:
            current.run("teardown", "--discard-runs")
        except BaseException:
            command = f"XDG_STATE_HOME={current.state} orchestrator teardown --cluster {cluster} --discard-runs"
            print(f"the cluster {cluster} may still be there: remove it by `{command}`", file=sys.stderr)
            raise
        shutil.rmtree(current.state)


def write(name: str, rows: Sequence[Row], rounds: int, where: str = "", cores: int | None = None) -> None:
    """Write NAME.md into OUTPUT, build/ by default, and print it.

    Args:
        name: Name of the page.
        rows: The table.
        rounds: Number of rounds.
        where: More about the machine or the clusters.
        cores: Number of cores measured on; None for all.
    """
    lines = ["| what | goal | measured | ratio | to |", "|---|---|---|---|---|"]
    lines += [f"| {r.what} | {r.goal} | {r.measured} | {r.ratio} | {r.reference} |" for r in rows]
    title = ", ".join(
        part for part in (f"{cores or os.cpu_count()} cores", where, f"median of {rounds} rounds") if part
    )
    write_page(name, f"{title}\n\n" + "\n".join(lines) + "\n")


def write_page(name: str, text: str) -> None:
    """Write NAME.md into OUTPUT, build/ by default, and print it."""
    page = OUTPUT / f"{name}.md"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(text)
    print(text)
