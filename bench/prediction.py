"""Measure how far predictions are right: ``make bench-prediction`` writes build/prediction.md. Needs root and ``tc``.

Four local nodes have 0.4 cores each. Their quota is counted every 2.5 ms: with the usual 100 ms a rank would run at
full speed and then stand still for 60 ms. Nodes of one machine share its caches and its memory, which machines do not.
So a profile is of a rank that trains on the same machine as another one, without communication.

For each link, `check` measures it; then each model trains on 2 and on 4 ranks. `train` keeps a prediction of each run
from profile and check alone, which is compared with what the run measured.
"""

import argparse
import json
import shutil
import statistics
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from bench.delayed_link import delayed
from bench.harness import Bench, bench, inspected, machine, write_page
from bench.link import INTERFACE, problem, tc
from orchestrator import recipes
from orchestrator.config import Train
from orchestrator.prediction.compare_with_runs import images_per_second
from orchestrator.schema import Predicted, Profile, Results

NAME = "bench-predict"
NODES = tuple(f"{NAME}-{node}" for node in ("head", "worker-0", "worker-1", "worker-2"))
CPUS, PERIOD = 0.4, 2_500  # cores of a node; us: Linux takes no quota below 1 ms
CLUSTER = f"{{name: {NAME}, nodes: 4, monitoring: {{enabled: false}}, local: {{cpus: {CPUS}}}}}"
SLOW = ("tbf", "rate", "200mbit", "burst", "256kb", "latency", "50ms")
LINKS = {
    "free": (),
    "1 Gbit/s": ("tbf", "rate", "1gbit", "burst", "256kb", "latency", "10ms"),
    "200 Mbit/s": SLOW,
    "200 Mbit/s + 2 ms": SLOW,
}
DELAYS = {"200 Mbit/s + 2 ms": 0.002}  # seconds from node to node, in each direction
# Model: pixels, images of a batch, steps of a profile, steps of a run.
MODELS = {"resnet20": (32, 32, 80, 60), "mobilenet_v2": (64, 32, 40, 30), "resnet50": (64, 32, 25, 15)}
RANKS = (2, 4)
FIXED = ("--dataset", "synthetic", "--precision", "float32", "--json")
# A rank that trains for itself, in a directory of its own; rank 0's is fetched with the run.
APART = """
import os, pathlib, sys
rank = os.environ["HOROVOD_RANK"]
directory = pathlib.Path(os.environ["ORCHESTRATOR_OUTPUT"]) / rank
directory.mkdir(parents=True)
(directory / "config.json").write_text({config!r})
kept = {{name: value for name, value in os.environ.items() if not name.startswith(("HOROVOD", "OMPI", "PMIX"))}}
os.execve(sys.executable, [sys.executable, "-m", "orchestrator.trainer.train", str(directory)], kept)
"""
HEADINGS = ("model", "link", "ranks", "predicted", "band", "measured", "error", "inside", "compute")


def share() -> None:
    """Count every node's quota over PERIOD, in the hierarchy of either version of control groups."""
    for node in NODES:
        container = inspected(node, "{{.Id}}")
        groups = Path("/sys/fs/cgroup")
        (group,) = (groups / "cpu" if (groups / "cpu").is_dir() else groups).rglob(f"*{container}*/")
        quota = str(int(CPUS * PERIOD))
        if (group / "cpu.max").exists():
            (group / "cpu.max").write_text(f"{quota} {PERIOD}")
        else:
            (group / "cpu.cfs_quota_us").write_text(quota)
            (group / "cpu.cfs_period_us").write_text(str(PERIOD))


def directory(b: Bench, run: str) -> Path:
    """Return this machine's directory of a run."""
    return b.state / "orchestrator" / NAME / "runs" / run


def train(b: Bench, model: str, ranks: int) -> Path:
    """Train a model and return this machine's directory of the run."""
    size, batch, _, steps = MODELS[model]
    shape = ("--image-size", str(size), "--batch-size", str(batch), "--steps", str(steps), "--np", str(ranks))
    return directory(b, json.loads(b.run("train", model, *FIXED, *shape))["run"])


def profile(b: Bench, model: str) -> Profile:
    """Train a model on two nodes, each for itself, and put the profile where `train` finds it."""
    size, batch, steps, _ = MODELS[model]
    settings = Train(
        model=model, dataset="synthetic", precision="float32", steps=steps, image_size=size, batch_size=batch
    )
    images = recipes.training_images("synthetic", None, 1)
    config = recipes.resolve(settings, "apart", None, images, 1, 1, batch)
    script = b.state / "apart" / "apart.py"
    script.parent.mkdir(exist_ok=True)
    script.write_text(APART.format(config=config.model_dump_json()))
    b.run("run", "--controller", "gloo", "--np", "2", "--", "python", str(script))
    newest = json.loads(b.run("runs", "--json"))
    own = directory(b, max(newest, key=lambda run: float(run["started"]))["id"])
    shutil.copy(own / "output" / "0" / "profile.json", own / "profile.json")
    return Profile.model_validate_json((own / "profile.json").read_text())


def row(model: str, link: str, ranks: int, one_rank: float, run: Path) -> dict[str, Any]:
    """Compare the efficiency of a run with its prediction; ``one_rank`` is one rank's images/s.

    "compute" is the time that ranks compute, divided by that of one rank.
    """
    predicted = Predicted.model_validate_json((run / "prediction.json").read_text())
    results = Results.model_validate_json((run / "results.json").read_text())
    rate = images_per_second(results) or 0.0
    compute = statistics.fmean(results.epochs[-1].compute_seconds) * one_rank / results.config.batch_size
    rates = (predicted.images_per_second, predicted.low, predicted.high, rate)
    expected, low, high, measured = (100 * each / ranks / one_rank for each in rates)
    error, inside = expected - measured, low <= measured <= high
    values = (model, link, ranks, expected, (low, high), measured, error, inside, compute)
    print(values, flush=True)
    return dict(zip(HEADINGS, values, strict=True))


def measure(b: Bench, link: str, one_rank: dict[str, float]) -> list[dict[str, Any]]:
    """Measure all models on one link; ``one_rank`` has one rank's images/s of each."""
    with delayed(NODES, DELAYS[link]) if link in DELAYS else nullcontext(INTERFACE) as device:
        tc(NODES, LINKS[link], device)
        print(b.run("check", "--json"), flush=True)
        return [row(m, link, ranks, one_rank[m], train(b, m, ranks)) for m in MODELS for ranks in RANKS]


def line(entry: dict[str, Any]) -> str:
    """Return the line of the table."""
    low, high = entry["band"]
    texts = {
        "predicted": f"{entry['predicted']:.1f} %",
        "band": f"{low:.1f} - {high:.1f}",
        "measured": f"{entry['measured']:.1f} %",
        "error": f"{entry['error']:+.1f}",
        "inside": "yes" if entry["inside"] else "no",
        "compute": f"{entry['compute']:.2f}",
    }
    return f"| {' | '.join(str(texts.get(name, entry[name])) for name in HEADINGS)} |"


def write(rows: list[dict[str, Any]], left_out: dict[str, str]) -> None:
    """Write build/prediction.md; ``left_out`` has the reason for each link that this machine cannot imitate."""
    lines = [f"| {' | '.join(HEADINGS)} |", "|" + "---|" * len(HEADINGS), *map(line, rows)]
    error = statistics.median(abs(entry["error"]) for entry in rows)
    inside = sum(entry["inside"] for entry in rows)
    text = f"median error {error:.1f} points of efficiency, {inside} of {len(rows)} inside the 90 % band"
    text += "".join(f"\n\n{link}: not measured: {reason}" for link, reason in left_out.items())
    write_page("prediction", f"{machine()}\n\n" + "\n".join(lines) + f"\n\n{text}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--link", action="append", choices=list(LINKS), help="only this link; may be repeated")
    parser.add_argument("--model", action="append", choices=list(MODELS), help="only this model; may be repeated")
    args = parser.parse_args()
    left_out = {link: reason for link in args.link or LINKS if (reason := problem(LINKS[link]))}
    links = [link for link in args.link or LINKS if link not in left_out]
    if not links:
        parser.error("; ".join(left_out.values()))
    for model in set(MODELS) - set(args.model or MODELS):
        del MODELS[model]
    with bench(NAME) as b:
        (b.state / "cluster.yaml").write_text(CLUSTER)
        b.run("deploy", "--config", str(b.state / "cluster.yaml"))
        share()
        profiles = {model: profile(b, model) for model in MODELS}
        one_rank = {model: measured.batch / statistics.median(measured.steps) for model, measured in profiles.items()}
        rows: list[dict[str, Any]] = []
        for link in links:
            rows += measure(b, link, one_rank)
            write(rows, left_out)


if __name__ == "__main__":
    main()
