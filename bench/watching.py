"""What it costs to watch a cluster: ``make bench-watching`` writes build/watching.md.

A run's images per second with everything on stand beside those of the same run with everything off, in pairs that
follow each other; which of a pair comes first alternates, for machines warm up and tire. Where machines are too noisy
for that to show one per cent, the share of all cores' time that the watching processes take during a run does.
"""

import json
import os
import statistics
import subprocess
import time
import urllib.parse
from typing import Any

from bench.harness import Bench, Row, bench, interleaved, paired, write

PAIRS, SIMULATED, SETTLED_SECONDS = 5, 64, 90.0
TRAIN = ("train", "resnet20", "--dataset", "synthetic", "--epochs", "1000", "--max-time", "30s")
HEAD, WORKER = "bench-head", "bench-worker-0"
UNITS = "prometheus-node-exporter trainer-exporter prometheus prometheus-alertmanager"
PID = "$(sudo systemctl show --property MainPID --value $unit)"
STAT = f"for unit in {UNITS}; do cat /proc/{PID}/stat; done 2> /dev/null; true"
TARGETS = "/etc/orchestrator/prometheus/targets.json"


def images_per_second(b: Bench) -> float:
    """Of a whole run: the mean over its epochs but the first."""
    epochs = json.loads(b.run(*TRAIN, "--json"))["epochs"][1:]
    return float(statistics.mean(epoch["images_per_second"] for epoch in epochs))


def watchers(b: Bench) -> float:
    """CPU seconds that the processes which watch have used until now, on both nodes (proc_pid_stat(5))."""
    lines = "".join(b.run("ssh", node, "--", "sh", "-c", STAT) for node in (HEAD, WORKER)).splitlines()
    assert len(lines) == 6, "two exporters on each node, Prometheus and Alertmanager"
    fields = [line.rpartition(")")[2].split() for line in lines]
    return sum(int(one[11]) + int(one[12]) for one in fields) / os.sysconf("SC_CLK_TCK")


def training(b: Bench) -> list[Row]:
    shares: list[float] = []  # of all cores, that what watches took while a run went on, from its launch to its end

    def watched() -> float:
        b.run("deploy", "--nodes", "2", "--monitoring")
        used, started = watchers(b), time.perf_counter()
        rate = images_per_second(b)
        shares.append((watchers(b) - used) / (time.perf_counter() - started) / len(os.sched_getaffinity(0)))
        return rate

    def unwatched() -> float:
        b.run("deploy", "--nodes", "2", "--no-monitoring")
        return images_per_second(b)

    on, off = "images/s with everything on", "everything off"
    found = interleaved({on: watched, off: unwatched}, PAIRS)
    taken, all_of_them = f"{statistics.median(shares):.2%} of all cores' time", " ".join(f"{one:.2%}" for one in shares)
    return [paired(found, on, off, "> 0.99"), Row("CPU time of what watches", "< 1 %", taken, "", all_of_them)]


def got(b: Bench, url: str) -> str:
    """What the head gets there."""
    look = f"import urllib.request; print(urllib.request.urlopen({url!r}).read().decode(), end='')"
    return b.run("ssh", HEAD, "--", "/opt/orchestrator/bin/python", "-c", look)


def ask(b: Bench, query: str) -> dict[str, float]:
    """Values by job and node."""
    page = got(b, f"http://127.0.0.1:9090/api/v1/query?{urllib.parse.urlencode({'query': query})}")
    found: list[dict[str, Any]] = json.loads(page)["data"]["result"]
    return {f"{one['metric']['job']} of {one['metric']['node']}": float(one["value"][1]) for one in found}


def scrapes(b: Bench) -> list[Row]:
    """While nothing is trained: one scrape of each exporter."""
    seconds = ask(b, "avg_over_time(scrape_duration_seconds[1m])")
    samples = ask(b, "scrape_samples_scraped")
    rows = []
    for target in json.loads(b.run("ssh", HEAD, "--", "cat", TARGETS)):
        name = f"{target['labels']['job']} of {target['labels']['node']}"
        size = len(got(b, f"http://{target['targets'][0]}/metrics"))
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
    """Resident memory of Prometheus, bytes."""
    show = ("sudo", "systemctl", "show", "--property", "MainPID", "--value", "prometheus")
    pid = b.run("ssh", HEAD, "--", *show).strip()
    return 1024 * int(b.run("ssh", HEAD, "--", "ps", "-o", "rss=", "-p", pid))


def simulate(b: Bench, nodes: int) -> None:
    """Tell Prometheus of so many nodes: the same exporters again under other names."""
    real = json.loads(b.run("ssh", HEAD, "--", "cat", TARGETS))
    copies = [
        {**target, "labels": {**target["labels"], "node": f"simulated-{number}-{target['labels']['node']}"}}
        for number in range(nodes // 2)
        for target in real
    ]
    write_down = ["docker", "exec", "--interactive", HEAD, "tee", TARGETS]
    subprocess.run(write_down, input=json.dumps(copies).encode(), check=True, capture_output=True)
    time.sleep(SETTLED_SECONDS)


def prometheus(b: Bench) -> list[Row]:
    two = memory(b)
    simulate(b, SIMULATED)
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
    with bench() as b:
        rows = training(b)
        write("watching", rows, PAIRS)  # the rest takes minutes more
        b.run("teardown")
        b.deploy(2)
        time.sleep(SETTLED_SECONDS)
        rows += scrapes(b) + prometheus(b)
    write("watching", rows, PAIRS)


if __name__ == "__main__":
    main()
