"""Run the programs of this directory in turns, and print the cost of each compared with data parallel training.

    python compare.py --rounds 5 [options of `orchestrator run`, such as --cluster NAME]

In each round every program runs once, in an order that turns round after each, so that other load on the machine
affects all alike. A ratio compares two runs of the same round.
"""

import argparse
import re
import statistics
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
BASE = "data parallel"
PROGRAMS = {
    "one rank": ("--np 1", "data_parallel.py"),
    BASE: ("", "data_parallel.py"),
    "data parallel, --cycle-time 1": ("--cycle-time 1", "data_parallel.py"),
    "ring, written out": ("", "ring.py"),
    "parameter server, synchronous": ("", "parameter_server.py"),
    "parameter server, asynchronous": ("", "parameter_server.py --asynchronous 1"),
    "pipeline, 1 micro-batch": ("", "pipeline.py --micro-batches 1"),
    "pipeline, 4 micro-batches": ("", "pipeline.py --micro-batches 4"),
    "pipeline, 8 micro-batches": ("", "pipeline.py --micro-batches 8"),
    "pipeline, 32 micro-batches": ("", "pipeline.py --micro-batches 32"),
}
RANK = re.compile(r"rank \d+: (\d+) images/s, ([\d.]+) MB sent per step, idle (\d+)%")
TEST = re.compile(r"test loss ([\d.]+), accuracy ([\d.]+)%")


class Measured(NamedTuple):
    """Result of one run: speed of the slowest rank, MB that the busiest node sent per step, idle time of each rank."""

    speed: float
    megabytes: float
    idle: list[int]
    loss: float
    accuracy: float


def measure(name: str, options: list[str], epochs: int) -> Measured:
    """Run a program once."""
    launch, program = PROGRAMS[name]
    script, *arguments = program.split()
    command = ["orchestrator", "run", *options, *launch.split(), "--", "python", script, *arguments]
    command += ["--epochs", str(epochs)]
    finished = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False)
    if finished.returncode:
        raise SystemExit(finished.stdout + finished.stderr)
    ranks, test = RANK.findall(finished.stdout), TEST.findall(finished.stdout)[0]
    speed, megabytes = min(float(rank[0]) for rank in ranks), max(float(rank[1]) for rank in ranks)
    return Measured(speed, megabytes, sorted(int(rank[2]) for rank in ranks), *map(float, test))


def row(name: str, runs: list[Measured], base: list[Measured]) -> str:
    """Return the row of a program: medians, and the ratio with its smallest and largest value."""
    ratios = sorted(run.speed / other.speed for run, other in zip(runs, base, strict=True))
    idle = [statistics.median(each) for each in zip(*(run.idle for run in runs), strict=True)]
    last = runs[-1]
    return (
        f"| {name} | {statistics.median(run.speed for run in runs):.0f} | "
        f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}) | "
        f"{statistics.median(run.megabytes for run in runs):.2f} | {', '.join(f'{share:.0f} %' for share in idle)} | "
        f"{last.loss:.4f} | {last.accuracy:.1f} % |"
    )


def main() -> None:
    """Measure in turns and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=10)
    args, options = parser.parse_known_args()
    measured: dict[str, list[Measured]] = {name: [] for name in PROGRAMS}
    for turn in range(args.rounds):
        for name in list(PROGRAMS)[:: -1 if turn % 2 else 1]:
            measured[name].append(measure(name, options, args.epochs))
            print(f"round {turn + 1}: {name}: {measured[name][-1].speed:.0f} images/s", file=sys.stderr, flush=True)
    print(f"| program | images/s | relative to {BASE} | MB per step | idle | test loss | accuracy |")
    print("|---|---|---|---|---|---|---|")
    for name, runs in measured.items():
        print(row(name, runs, measured[BASE]))


if __name__ == "__main__":
    main()
