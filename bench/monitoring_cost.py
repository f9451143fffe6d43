"""Measure the cost of monitoring a cluster: ``make bench-monitoring`` writes build/monitoring.md.

A run's images per second with all monitoring are compared with those of the same run without, in pairs that follow each
other; the order in a pair alternates, since machines warm up and slow down. If a machine is too noisy to show one per
cent that way, the monitoring processes' share of the CPU time during a run shows it.
"""

import argparse
import json
import os
import statistics
import subprocess
import time
import urllib.parse
from typing import Any

from bench.harness import Bench, Row, bench, interleaved, paired, write

SIMULATED = 64
TRAIN = ("train", "resnet20", "--dataset", "synthetic", "--epochs", "1000", "--json", "--max-time")
HEAD, WORKER = "bench-head", "bench-worker-0"
UNITS = "prometheus-node-exporter trainer-exporter prometheus prometheus-alertmanager"
PID = "$(sudo systemctl show --property MainPID --value $unit)"
STAT = f"for unit in {UNITS}; do cat /proc/{PID}/stat; done 2> /dev/null; true"
TARGETS = "/etc/orchestrator/prometheus/targets.json"


def images_per_second(b: Bench, seconds: float) -> float:
    """Return the images/s of a whole run: the mean over its epochs but the first, unless it is the only one."""
    epochs = json.loads(b.run(*TRAIN, f"{seconds:g}s"))["epochs"]
    return float(statistics.mean(epoch["images_per_second"] for epoch in epochs[1:] or epochs))


def watchers(b: Bench) -> float:
    """Return the CPU seconds that monitoring processes have used so far, on both nodes (proc_pid_stat(5))."""
    lines = "".join(b.run("ssh", node, "--", "sh", "-c", STAT) for node in (HEAD, WORKER)).splitlines()
    assert len(lines) == 6, "two exporters on each node, Prometheus and Alertmanager"
    fields = [line.rpartition(")")[2].split() for line in lines]
    return sum(int(process[11]) + int(process[12]) for process in fields) / os.sysconf("SC_CLK_TCK")


def training(b: Bench, pairs: int, seconds: float) -> list[Row]:
    """Compare pairs of runs of ``seconds`` with and without monitoring."""
    shares: list[float] = []  # of all cores' time from a run's launch to its end, used by monitoring

    def watched() -> float:
        b.run("deploy", "--nodes", "2", "--monitoring")
        used, started = watchers(b), time.perf_counter()
        rate = images_per_second(b, seconds)
        shares.append((watchers(b) - used) / (time.perf_counter() - started) / len(os.sched_getaffinity(0)))
        return rate

    def unwatched() -> float:
        b.run("deploy", "--nodes", "2", "--no-monitoring")
        return images_per_second(b, seconds)

    on, off = "images/s with everything on", "everything off"
    measured = interleaved({on: watched, off: unwatched}, pairs)
    share, all_of_them = (
        f"{statistics.median(shares):.2%} of all cores' time",
        " ".join(f"{share:.2%}" for share in shares),
    )
    return [paired(measured, on, off, "> 0.99"), Row("CPU time of monitoring", "< 1 %", share, "", all_of_them)]


def fetch(b: Bench, url: str) -> str:
    """Fetch ``url`` on the head."""
    program = f"import urllib.request; print(urllib.request.urlopen({url!r}).read().decode(), end='')"
    return b.run("ssh", HEAD, "--", "/opt/orchestrator/bin/python", "-c", program)


def query_prometheus(b: Bench, query: str) -> dict[str, float]:
    """Query Prometheus; return values by job and node."""
    page = fetch(b, f"http://127.0.0.1:9090/api/v1/query?{urllib.parse.urlencode({'query': query})}")
    samples: list[dict[str, Any]] = json.loads(page)["data"]["result"]
    return {f"{sample['metric']['job']} of {sample['metric']['node']}": float(sample["value"][1]) for sample in samples}


def scrapes(b: Bench) -> list[Row]:
    """Measure one scrape of each exporter while nothing is trained."""
    seconds = query_prometheus(b, "avg_over_time(scrape_duration_seconds[1m])")
    samples = query_prometheus(b, "scrape_samples_scraped")
    rows = []
    for target in json.loads(b.run("ssh", HEAD, "--", "cat", TARGETS)):
        name = f"{target['labels']['job']} of {target['labels']['node']}"
        size = len(fetch(b, f"http://{target['targets'][0]}/metrics"))
        rows.append(
            Row(
                f"a scrape of {name}",
                "",
                f"{1000 * seconds[name]:.0f} ms, {size / 1024:.1f} KiB",
                "",
                f"{samples[name]:.0f} samples",
            )
        )
    return rows


def memory(b: Bench) -> int:
    """Return the resident memory of Prometheus, bytes."""
    show = ("sudo", "systemctl", "show", "--property", "MainPID", "--value", "prometheus")
    pid = b.run("ssh", HEAD, "--", *show).strip()
    return 1024 * int(b.run("ssh", HEAD, "--", "ps", "-o", "rss=", "-p", pid))


def simulate(b: Bench, nodes: int) -> None:
    """Simulate ``nodes`` nodes in Prometheus: the same exporters again under other names."""
    real = json.loads(b.run("ssh", HEAD, "--", "cat", TARGETS))
    copies = [
        {**target, "labels": {**target["labels"], "node": f"simulated-{number}-{target['labels']['node']}"}}
        for number in range(nodes // 2)
        for target in real
    ]
    write_down = ["docker", "exec", "--interactive", HEAD, "tee", TARGETS]
    subprocess.run(write_down, input=json.dumps(copies).encode(), check=True, capture_output=True)


def prometheus(b: Bench, settled: float) -> list[Row]:
    """Compare Prometheus' memory with two nodes and with many, ``settled`` seconds after it got their addresses."""
    two = memory(b)
    simulate(b, SIMULATED)
    time.sleep(settled)
    many = memory(b)
    return [
        Row("Prometheus with 2 nodes", "", f"{two >> 20} MiB resident", "", ""),
        Row(
            f"Prometheus with {SIMULATED} nodes, simulated",
            "",
            f"{many >> 20} MiB resident",
            f"{many / two:.1f}",
            "2 nodes",
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=30.0, help="of a run")
    parser.add_argument("--settled", type=float, default=90.0, help="seconds from a change of the nodes to a look")
    args = parser.parse_args()
    with bench() as b:
        rows = training(b, args.pairs, args.seconds)
        write("monitoring", rows, args.pairs)  # the rest takes minutes more
        b.run("teardown")
        b.deploy(2)
        time.sleep(args.settled)
        rows += scrapes(b) + prometheus(b, args.settled)
    write("monitoring", rows, args.pairs)


if __name__ == "__main__":
    main()
