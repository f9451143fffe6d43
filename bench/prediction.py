"""Measure how far predictions are right: ``make bench-prediction`` writes build/prediction.md. Needs root and ``tc``.

Four local nodes have half a core each, so that a rank computes as fast alone as beside three others. Their quota is
counted every 10 ms: with the usual 100 ms a rank would run at full speed and then stand still for 50 ms. For each link,
a run of one rank of each model gives its profile and `check` the link; then each model trains on 2 and on 4 ranks.
`train` keeps a prediction of each run from these alone, which is compared with what the run measured.
"""

import argparse
import json
import subprocess
from pathlib import Path
from typing import Any

from bench.harness import ROOT, Bench, bench, machine
from bench.link import tc
from orchestrator.prediction.review import images_per_second
from orchestrator.schema import Predicted, Results

CLUSTER = "{name: bench-predict, nodes: 4, monitoring: {enabled: false}, local: {cpus: 0.5}}"
NAME = "bench-predict"
NODES = tuple(f"{NAME}-{node}" for node in ("head", "worker-0", "worker-1", "worker-2"))
PERIOD = 10_000  # us
LINKS = {
    "free": (),
    "1 Gbit/s": ("tbf", "rate", "1gbit", "burst", "256kb", "latency", "10ms"),
    "200 Mbit/s + 2 ms": ("netem", "delay", "2ms", "rate", "200mbit", "limit", "10000"),
}
# Model: options, steps of a profile, steps of a run.
MODELS = {
    "resnet20": (("--image-size", "32", "--batch-size", "32"), 80, 60),
    "mobilenet_v2": (("--image-size", "64", "--batch-size", "32"), 40, 30),
    "resnet50": (("--image-size", "64", "--batch-size", "32"), 25, 15),
}
RANKS = (2, 4)
HEADINGS = ("model", "link", "ranks", "predicted", "band", "measured", "error", "inside")


def share() -> None:
    """Count every node's quota over PERIOD."""
    for node in NODES:
        look = ["docker", "inspect", "--format", "{{.Id}}", node]
        container = subprocess.run(look, check=True, capture_output=True, text=True).stdout.strip()
        (group,) = Path("/sys/fs/cgroup/cpu").rglob(container)
        (group / "cpu.cfs_quota_us").write_text(str(PERIOD // 2))
        (group / "cpu.cfs_period_us").write_text(str(PERIOD))


def train(b: Bench, model: str, ranks: int) -> Path:
    """Train a model and return this machine's directory of the run."""
    options, profile, steps = MODELS[model]
    fixed = (
        "--dataset",
        "synthetic",
        "--precision",
        "float32",
        "--json",
        "--steps",
        str(steps if ranks > 1 else profile),
    )
    found = json.loads(b.run("train", model, *options, *fixed, "--np", str(ranks)))
    return b.state / "orchestrator" / NAME / "runs" / str(found["run"])


def row(model: str, link: str, ranks: int, alone: float, run: Path) -> dict[str, Any]:
    """Compare the efficiency of a run with its prediction; ``alone`` is one rank's images/s."""
    made = Predicted.model_validate_json((run / "prediction.json").read_text())
    rate = images_per_second(Results.model_validate_json((run / "results.json").read_text())) or 0.0
    rates = (made.images_per_second, made.low, made.high, rate)
    expected, low, high, measured = (100 * each / ranks / alone for each in rates)
    values = (model, link, ranks, expected, (low, high), measured, expected - measured, low <= measured <= high)
    print(values, flush=True)
    return dict(zip(HEADINGS, values, strict=True))


def measure(b: Bench, link: str) -> list[dict[str, Any]]:
    """Measure all models on one link."""
    profiles = {model: train(b, model, 1) for model in MODELS}
    results = {m: Results.model_validate_json((run / "results.json").read_text()) for m, run in profiles.items()}
    alone = {model: images_per_second(found) or 0.0 for model, found in results.items()}
    tc(NODES, LINKS[link])
    print(b.run("check", "--json"), flush=True)
    return [row(m, link, ranks, alone[m], train(b, m, ranks)) for m in MODELS for ranks in RANKS]


def write(rows: list[dict[str, Any]]) -> None:
    """Write build/prediction.md."""
    lines = [f"| {' | '.join(HEADINGS)} |", "|" + "---|" * len(HEADINGS)]
    for found in rows:
        low, high = found["band"]
        numbers = (
            f"{found['predicted']:.1f} % | {low:.1f} - {high:.1f} | {found['measured']:.1f} % | {found['error']:+.1f}"
        )
        inside = "yes" if found["inside"] else "no"
        lines.append(f"| {found['model']} | {found['link']} | {found['ranks']} | {numbers} | {inside} |")
    errors = sorted(abs(found["error"]) for found in rows)
    inside = sum(found["inside"] for found in rows)
    middle = errors[len(errors) // 2]
    text = f"median error {middle:.1f} points of efficiency, {inside} of {len(rows)} inside the 90 % band"
    page = ROOT / "build" / "prediction.md"
    page.parent.mkdir(exist_ok=True)
    page.write_text(f"{machine()}\n\n" + "\n".join(lines) + f"\n\n{text}\n")
    print(page.read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--link", action="append", choices=list(LINKS), help="only this link; may be repeated")
    parser.add_argument("--model", action="append", choices=list(MODELS), help="only this model; may be repeated")
    args = parser.parse_args()
    for model in set(MODELS) - set(args.model or MODELS):
        del MODELS[model]
    with bench(NAME) as b:
        (b.state / "cluster.yaml").write_text(CLUSTER)
        b.run("deploy", "--config", str(b.state / "cluster.yaml"))
        share()
        rows = [found for link in args.link or LINKS for found in measure(b, link)]
        write(rows)
        (ROOT / "build" / f"prediction-{'-'.join(args.link or ['all'])}.json".replace("/", "")).write_text(
            json.dumps(rows)
        )


if __name__ == "__main__":
    main()
