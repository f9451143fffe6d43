"""Measure a cluster as it grows: deploy, second deploy, status, and a run of a script that imports nothing."""

import resource
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.harness import Bench, Row, timed

LINE = "the line of a rank"
LAUNCH = "run to the last rank's line"
GOALS = {
    ("second deploy", 2): "< 4 s",
    ("deploy", 32): "< 240 s",
    ("second deploy", 32): "< 20 s",
    (LAUNCH, 32): "< 30 s",
}


@dataclass(frozen=True)
class Costs:
    """Seconds of one cluster, by step; ``cpu`` is the CPU time on this machine of the first deploy."""

    nodes: int
    seconds: dict[str, float]
    cpu: float


def rows(b: Bench, sizes: Sequence[int]) -> list[Row]:
    """Measure each cluster from nothing; CPU per further node is relative to the smallest cluster."""
    clusters = [_measured(b, nodes) for nodes in sizes]
    return [row for costs in clusters for row in _rows(costs, clusters[0])]


def _measured(b: Bench, nodes: int) -> Costs:
    script = b.state / "line.py"
    script.write_text(f"print({LINE!r}, flush=True)\n")
    seconds: dict[str, float] = {}
    cpu = cpu_seconds(lambda: seconds.update({"deploy": timed(lambda: b.deploy(nodes))}))
    seconds["second deploy"] = timed(lambda: b.deploy(nodes))
    seconds["check of the nodes (`status`)"] = timed(lambda: b.run("status"))
    words = ("run", "--controller", "gloo", "--", "python", str(script))
    seconds[LAUNCH] = b.last_line(LINE, nodes, *words)
    seconds["teardown"] = timed(lambda: b.run("teardown"))
    print(f"{nodes} nodes: {seconds}, {cpu:.1f} s of CPU", file=sys.stderr)
    return Costs(nodes, seconds, cpu)


def _rows(costs: Costs, least: Costs) -> list[Row]:
    n = costs.nodes
    lines = [
        Row(f"{what}, {n} nodes", GOALS.get((what, n), ""), f"{seconds:.1f} s", "", "")
        for what, seconds in costs.seconds.items()
    ]
    share = f"{(costs.cpu - least.cpu) / (n - least.nodes):.2f} s" if n > least.nodes else ""
    reference = f"per node more than {least.nodes} (goal < 1 s)" if share else ""
    return [*lines, Row(f"CPU of this side, deploy of {n} nodes", "", f"{costs.cpu:.1f} s", share, reference)]


def cpu_seconds(action: Callable[[], object]) -> float:
    """Return the CPU seconds of the programs that ``action`` starts and waits for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    action()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
