"""Helpers of ``bench/gpu.sh``: write a run's configuration, print rates, and print the table of all runs."""

import csv
import json
import os
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

from orchestrator.schema import Results, TrainConfig

COLUMNS = ("who", "precision", "batch", "xla", "images/s", "SM %", "W", "MiB")
REFERENCE = "Horovod's example"


def config(directory: str, precision: str, batch: str, xla: str, pixels: str, images: str, epochs: str) -> None:
    """Write the configuration of ResNet-50 on synthetic images, as in its recipe (orchestrator/recipes/resnet50.yaml).

    Args:
        directory: The run's directory.
        precision: The precision of training.
        batch: Images per step.
        xla: "yes" to compile with XLA.
        pixels: Height and width of the images.
        images: Images per epoch.
        epochs: Number of epochs.
    """
    settings = TrainConfig(
        run=Path(directory).name,
        model="resnet50",
        dataset="synthetic",
        data=None,
        image_size=int(pixels),
        channels=3,
        classes=1000,
        synthetic_images=int(images),
        augment=False,
        epochs=int(epochs),
        batch_size=int(batch),
        learning_rate=0.0125 * int(batch) / 32,
        momentum=0.9,
        weight_decay=1e-4,
        warmup_epochs=0,
        schedule="step",
        seed=1,
        precision=precision,
        threads=len(os.sched_getaffinity(0)),
        xla=xla == "yes",
    )
    settings.write(Path(directory) / "config.json")


def rate(directory: str) -> None:
    """Print the images/s of a run: the median of the epochs but the first."""
    results = Results.model_validate_json((Path(directory) / "results.json").read_text())
    print(f"{statistics.median(epoch.images_per_second for epoch in results.epochs[1:]):.1f}")


def median(path: str) -> None:
    """Print the images/s of a loop: the median of its rounds, in JSON in the last line of a file."""
    print(f"{statistics.median(json.loads(Path(path).read_text().splitlines()[-1])['images_per_second']):.1f}")


def table(path: str) -> None:
    """Print a file of tab-separated COLUMNS as Markdown, with each rate relative to the reference of the same batch."""
    with Path(path).open(newline="") as file:
        rows = list(csv.DictReader(file, COLUMNS, delimiter="\t"))
    reference = {row["batch"]: row["images/s"] for row in rows if row["who"] == REFERENCE}
    print(f"| {' | '.join(COLUMNS)} | to {REFERENCE} |", "|---" * (len(COLUMNS) + 1) + "|", sep="\n")
    for row in rows:
        print(f"| {' | '.join(row.values())} | {_ratio(row['images/s'], reference.get(row['batch'], ''))} |")


def _ratio(rate: str, reference: str) -> str:
    try:
        return f"{float(rate) / float(reference):.2f}"
    except ValueError:
        return ""


COMMANDS: dict[str, Callable[..., None]] = {"config": config, "rate": rate, "median": median, "table": table}

if __name__ == "__main__":
    COMMANDS[sys.argv[1]](*sys.argv[2:])
