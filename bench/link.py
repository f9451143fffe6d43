"""Measure training over a slow link: ``make bench-link`` writes build/link.md. Needs root and ``tc`` (Debian's
iproute2).

Two local nodes of a core each, which several ranks may share, train a network; Linux' token bucket filter (tc-tbf(8))
on each node's interface limits what it sends. First `check` measures a step over Gloo and over MPI, from which the
controller is chosen. Then runs follow each other, in the opposite order every other round: with the chosen settings,
with Horovod's own cycle and no compression, over each controller, and with several ranks per node also without means
within nodes first. Earlier runs' measurements of the link are deleted before each.
"""

import argparse
import json
import subprocess
from collections.abc import Sequence

from bench.harness import Bench, Row, bench, inspected, interleaved, machine, paired, write
from bench.train_ours import HOROVODS_CYCLE
from orchestrator.runs.gloo_or_mpi import CONTROLLERS
from orchestrator.schema import CheckResult

NODES = ("bench-head", "bench-worker-0")
TRAIN = ("--dataset", "synthetic", "--epochs", "2", "--json")
HOROVODS = (
    *("--controller", "gloo", "--cycle-time", str(HOROVODS_CYCLE), "--compression", "none"),
    *("--env", "HOROVOD_CYCLE_ON_ENQUEUE=0"),
)
FLAT = "without means within nodes first"
BUCKET, LATENCY = "256kb", "10ms"  # of the token bucket: largest burst, and longest time that packets queue
FREE = "free"
INTERFACE = "eth0"  # of a local node


def shape(rate: str) -> None:
    """Limit what every node sends to ``rate``, in tc's notation; FREE removes the limit."""
    tc(NODES, () if rate == FREE else ("tbf", "rate", rate, "burst", BUCKET, "latency", LATENCY))


def tc(nodes: Sequence[str], discipline: Sequence[str], device: str = INTERFACE) -> None:
    """Set the queueing discipline, in tc's words, of packets that ``nodes`` send over ``device``; none removes it."""
    for node in nodes:
        command = ["nsenter", "--target", inspected(node, "{{.State.Pid}}"), "--net", "tc", "qdisc"]
        subprocess.run([*command, "del", "dev", device, "root"], check=False, capture_output=True)
        if discipline:
            subprocess.run([*command, "add", "dev", device, "root", *discipline], check=True)


def problem(discipline: Sequence[str]) -> str:
    """Try a queueing discipline in a network namespace of its own, and return the error; not every kernel has each."""
    command = ["unshare", "--net", "tc", "qdisc", "add", "dev", "lo", "root", *discipline]
    tried = subprocess.run(command, check=False, capture_output=True, text=True) if discipline else None
    return f"`{' '.join(command)}`: {tried.stderr.strip()}" if tried and tried.returncode else ""


def trained(b: Bench, *options: str) -> float:
    """Return the images/s of all ranks together in the last epoch."""
    b.run("ssh", NODES[0], "--", "find", "/shared/runs", "-name", ".orchestrator-*", "-delete")
    results = json.loads(b.run("train", *options, *TRAIN))
    return float(results["epochs"][-1]["images_per_second"])


def step(b: Bench, controller: str) -> float:
    """Return the steps/s that `check` measures to choose between controllers."""
    return 1 / (
        CheckResult.model_validate_json(b.run("check", "--controller", controller, "--json")).whole_step_seconds
    )


def rows(b: Bench, rate: str, rounds: int, arguments: tuple[str, ...], slots: int) -> list[Row]:
    """Measure steps and runs at one rate.

    Args:
        b: The command.
        rate: Limit in tc's notation, or FREE.
        rounds: Number of rounds.
        arguments: The network, and more options for every run.
        slots: Ranks of each node.

    Returns:
        Rows of the table.
    """
    shape(rate)
    steps = {f"a step of check over {way}, link {rate}": lambda way=way: step(b, way) for way in CONTROLLERS}
    proofs = interleaved(steps, rounds)  # before the runs, since they decide the controller
    chosen = f"as chosen, link {rate}"
    others = {
        f"Horovod's cycle, 32 bits, link {rate}": HOROVODS,
        **{f"over {way}, link {rate}": ("--controller", way) for way in CONTROLLERS},
        **({f"{FLAT}, link {rate}": ("--no-hierarchical",)} if slots > 1 else {}),
    }
    contestants = {
        way: lambda options=options: trained(b, *arguments, *options) for way, options in {chosen: (), **others}.items()
    }
    measured = interleaved(contestants, rounds)
    rows_of_options = [paired(measured, chosen, other, "") for other in others]
    gloo, mpi = steps
    return [*rows_of_options, paired(proofs, gloo, mpi, "", unit="steps/s")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", action="append", default=[], help="as tc takes it; default: free, 1gbit")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--image-size", type=int, default=128, help="the smaller, the more the link counts")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--slots", type=int, default=1, help="ranks per node")
    parser.add_argument("--precision", default="auto", help="precision of train; default: the fastest")
    args = parser.parse_args()
    with bench() as b:
        b.run("deploy", "--nodes", str(len(NODES)), "--slots", str(args.slots), "--no-monitoring")
        measured: list[Row] = []
        shape_of_step = ("--image-size", str(args.image_size), "--batch-size", str(args.batch_size))
        options = (args.model, *shape_of_step, "--precision", args.precision)
        for rate in args.rate or (FREE, "1gbit"):
            measured += rows(b, rate, args.rounds, options, args.slots)
            write("link", measured, args.rounds, machine())


if __name__ == "__main__":
    main()
