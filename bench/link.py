"""Training over a slow link: ``make bench-link`` writes build/link.md. Needs root and ``tc`` (Debian's iproute2).

Two local nodes of a core each train ResNet-50, and what each sends is held to a rate by Linux' token bucket
filter (tc-tbf(8)) on its own interface. First `check` measures a step over Gloo and over MPI, which the controller is
chosen by. Then runs follow each other, every other round in the opposite order: as chosen, with Horovod's own cycle
and no compression, and over each controller. What runs measured about the link is forgotten before each.
"""

import argparse
import json
import subprocess

from bench.harness import Bench, Row, bench, interleaved, machine, paired, write
from bench.train_ours import HOROVODS_CYCLE
from orchestrator.proof import CONTROLLERS
from orchestrator.schema import Hello

NODES = ("bench-head", "bench-worker-0")
TRAIN = ("train", "resnet50", "--dataset", "synthetic", "--batch-size", "32")
ENOUGH = ("--epochs", "2", "--json")
HOROVODS = ("--controller", "gloo", "--cycle-time", str(HOROVODS_CYCLE), "--compression", "none")
BUCKET, LATENCY = "256kb", "10ms"  # of the token bucket: what may follow at once, and how long packets queue
FREE = "free"


def shape(rate: str) -> None:
    """Hold what every node sends to ``rate``, as tc writes it, unless that is FREE."""
    for node in NODES:
        look = ["docker", "inspect", "--format", "{{.State.Pid}}", node]
        pid = subprocess.run(look, check=True, capture_output=True, text=True).stdout.strip()
        tc = ["nsenter", "--target", pid, "--net", "tc", "qdisc"]
        subprocess.run([*tc, "del", "dev", "eth0", "root"], check=False, capture_output=True)
        if rate != FREE:
            limit = ("tbf", "rate", rate, "burst", BUCKET, "latency", LATENCY)
            subprocess.run([*tc, "add", "dev", "eth0", "root", *limit], check=True)


def trained(b: Bench, *options: str) -> float:
    """Images/s of both ranks together in the last epoch."""
    b.run("ssh", NODES[0], "--", "find", "/shared", "-name", ".link-*", "-delete")
    found = json.loads(b.run(*TRAIN, *ENOUGH, *options))
    return float(found["epochs"][-1]["images_per_second"])


def step(b: Bench, controller: str) -> float:
    """Steps/s, as `check` measures them for the choice between controllers."""
    return 1 / (Hello.model_validate_json(b.run("check", "--controller", controller, "--json")).whole_step_seconds or 0)


def rows(b: Bench, rate: str, rounds: int, asked: tuple[str, ...]) -> list[Row]:
    shape(rate)
    steps = {f"a step of check over {way}, link {rate}": lambda way=way: step(b, way) for way in CONTROLLERS}
    proofs = interleaved(steps, rounds)  # before the runs: what is chosen follows from these
    we = f"as chosen, link {rate}"
    others = {
        f"Horovod's cycle, 32 bits, link {rate}": HOROVODS,
        **{f"over {way}, link {rate}": ("--controller", way) for way in CONTROLLERS},
    }
    ways = {way: lambda options=options: trained(b, *asked, *options) for way, options in {we: (), **others}.items()}
    found = interleaved(ways, rounds)
    beside = [paired(found, we, other, "") for other in others]
    gloo, mpi = steps
    return [*beside, paired(proofs, gloo, mpi, "", unit="steps/s")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", action="append", default=[], help="as tc takes it; default: free, 1gbit")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--image-size", type=int, default=128, help="the smaller, the more the link counts")
    parser.add_argument("--precision", default="auto", help="as train takes it; default: what is fastest")
    args = parser.parse_args()
    with bench() as b:
        b.run("deploy", "--nodes", str(len(NODES)), "--no-monitoring")
        found: list[Row] = []
        asked = ("--image-size", str(args.image_size), "--precision", args.precision)
        for rate in args.rate or (FREE, "1gbit"):
            found += rows(b, rate, args.rounds, asked)
            write("link", found, args.rounds, machine())


if __name__ == "__main__":
    main()
