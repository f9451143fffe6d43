"""Measure the waiting times of the orchestrator on this machine: ``make bench`` writes build/bench.md.

Machines are noisy, so every figure is the median of several rounds, next to another measured in the same round: their
ratio is comparable between machines.
"""

import argparse
import statistics
import subprocess
import time
from collections.abc import Callable

from bench import scale
from bench.harness import COMMAND, MNIST, Bench, Row, bench, timed, write

MANY = 4
PARTS = ("deploys", "again", "scale")
SIZES = (2, 8, 32, 64)


def cold_deploys(b: Bench, count: int) -> list[Row]:
    """Measure deploys of one node and of several, each from nothing."""
    rounds = []
    for _ in range(count):
        first = timed(lambda: b.deploy(1))
        b.run("teardown")
        many = timed(lambda: b.deploy(MANY))
        b.run("teardown")
        rounds.append((first, (many - first) / (MANY - 1)))
    first = statistics.median(first for first, _ in rounds)
    more = statistics.median(further for _, further in rounds)
    share = statistics.median(further / first for first, further in rounds)
    return [
        Row("cold deploy of the first node", "", f"{first:.1f} s", "", ""),
        Row("each further node", "< 5 % of the first", f"{more:.1f} s", f"{share:.0%}", "the first node"),
    ]


def second_deploy(b: Bench, count: int) -> list[Row]:
    """Compare a deploy with nothing to do to Ansible's own ping of the same nodes."""
    inventory = b.state / "inventory.json"
    inventory.write_text(b.run("inventory"))
    ping = [str(COMMAND.with_name("ansible")), "-i", str(inventory), "all", "-m", "ansible.builtin.ping"]
    rounds = []
    for _ in range(count):
        started = time.perf_counter()
        deployment = b.deploy(2)
        seconds = time.perf_counter() - started
        assert set(deployment["changed"].values()) == {0}
        pinged = timed(lambda: subprocess.run(ping, check=True, capture_output=True))
        rounds.append((seconds, deployment["seconds"]["Configuring nodes"] / seconds, seconds / pinged))
    seconds, share, ratio = (statistics.median(column) for column in zip(*rounds, strict=True))
    return [
        Row(
            "second deploy, nothing to do, 2 nodes", "< 10 s", f"{seconds:.1f} s", f"{ratio:.1f}", "ansible all -m ping"
        ),
        Row("of which Ansible", "the smaller part", f"{share * seconds:.1f} s", f"{share:.0%}", "the whole"),
    ]


def launches(b: Bench, count: int) -> list[Row]:
    """Compare the time from the command to a rank's first line to the time of a rank's imports."""
    load = "import time; begun = time.time(); import horovod.tensorflow, keras; print(time.time() - begun)"
    python = "/opt/orchestrator/bin/python"
    script = b.state / "first_line.py"
    script.write_text("print('here', flush=True)\n")
    train = ("train", "resnet20", "--dataset", "mnist", "--data", str(MNIST), "--steps", "2")
    rounds = []
    for _ in range(count):
        imported = float(b.run("ssh", "bench-head", "--", python, "-c", load))
        bare = b.first_line("run", "--", "python", str(script))
        rounds.append((imported, bare, b.first_line(*train) - imported))
    imported, bare, beyond = (statistics.median(column) for column in zip(*rounds, strict=True))
    reference = f"import of TensorFlow and Keras, {imported:.1f} s"
    return [
        Row(
            "`run` to the first rank's first line, 2 nodes",
            "< 2 s",
            f"{bare:.1f} s",
            f"{bare / imported:.1f}",
            reference,
        ),
        Row(
            "`train` to the first line, beyond that import",
            "< 2 s",
            f"{beyond:.1f} s",
            f"{beyond / imported:.1f}",
            reference,
        ),
    ]


def idle_memory(b: Bench) -> list[Row]:
    """Compare the working set of an idle node's container to that of systemd alone."""
    b.deploy(2)
    time.sleep(5)
    used = {}
    for name in ("bench-head", "bench-worker-0"):
        words = ["docker", "stats", "--no-stream", "--format", "{{.MemUsage}}", name]
        used[name] = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split(" /")[0]
    init = "ps -o rss= -p 1"
    systemd = int(b.run("ssh", "bench-worker-0", "--", *init.split())) / 1024
    return [
        Row(
            "memory of an idle node",
            "< 57 MiB",
            used["bench-worker-0"],
            "",
            f"systemd alone: {systemd:.0f} MiB resident",
        )
    ]


def two_nodes(b: Bench, count: int) -> list[Row]:
    """Measure a cluster of two nodes: a second deploy, launches, idle memory."""
    b.deploy(2)
    rows = second_deploy(b, count) + launches(b, count)
    b.run("teardown")
    return rows + idle_memory(b)


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--nodes", nargs="+", type=int, default=SIZES, help="sizes of the clusters of `scale`")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    parts: dict[str, Callable[[Bench], list[Row]]] = {
        "deploys": lambda b: cold_deploys(b, args.rounds),
        "again": lambda b: two_nodes(b, args.rounds),
        "scale": lambda b: scale.rows(b, args.nodes),
    }
    rows: list[Row] = []
    with bench() as b:
        b.deploy(1)  # builds the images
        b.run("teardown")
        for part in (part for part in PARTS if part in args.only):
            rows += parts[part](b)
            write("bench", rows, args.rounds, "clusters by the number of nodes once each")  # the rest may fail


if __name__ == "__main__":
    main()
