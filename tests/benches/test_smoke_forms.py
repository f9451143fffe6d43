"""Smoke runs of every bench: a few steps, one round, small sizes. Their figures mean nothing."""

import os
import sys
from pathlib import Path

import pytest

from tests import noise, waiting

ROOT = Path(__file__).parents[2]
SECONDS = 600
LINK = (
    *("--rate", "1gbit", "--rounds", "1", "--slots", "2"),
    *("--model", "lenet", "--image-size", "32", "--precision", "float32"),
)
# Reasons for which a contestant may be left out: this machine lacks the tool, and no bench can install it.
LACKING = ("HOROVOD_SOURCE", "tests.images pytorch")

# Pages whose name is not the module's.
PAGES = {"bench.train": "training", "bench.monitoring_cost": "monitoring"}


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Class folders of small JPEGs of noise."""
    return noise.folders(tmp_path, {"train": 40, "val": 10}, classes=5)


def run(output: Path, argv: list[str], page: str, **variables: str) -> str:
    """Run a bench, which must succeed, and return the table that it wrote."""
    environment = {**os.environ, "BENCH_OUTPUT": str(output), **variables}
    completed = waiting.run_within(SECONDS, argv, ROOT, environment)
    assert completed.returncode == 0, completed.stdout
    return (output / page).read_text()


def bench(output: Path, name: str, *words: str, **variables: str) -> str:
    page = PAGES.get(name, name.removeprefix("bench."))
    return run(output, [sys.executable, "-m", name, *words], f"{page}.md", **variables)


def test_every_row_of_training_is_measured(tmp_path: Path, images: Path) -> None:
    table = bench(tmp_path, "bench.train", "--smoke", BENCH_IMAGENET=str(images))
    left_out = [line for line in table.splitlines() if "not measured" in line]
    assert [line for line in left_out if not any(reason in line for reason in LACKING)] == []
    for row in ("resnet50", "2 ranks", "only waiting", "dense", "first step", "functions traced", "class folders"):
        assert any(row in line and line not in left_out for line in table.splitlines()), f"no {row} in {table}"


def test_a_step_is_profiled_by_operation(tmp_path: Path) -> None:
    table = bench(tmp_path, "bench.profile", "resnet20", "--batch", "2", "--precision", "float32")
    assert "Conv2DBackpropFilter" in table


def test_a_step_is_compared_with_the_shortest_possible_step(tmp_path: Path) -> None:
    table = bench(tmp_path, "bench.roofline", "resnet20", "--batch", "2", "--precision", "float32")
    assert "at the least, ours" in table
    assert "| 3x3, 16 to 16, 32x32 | 6 |" in table


def test_waiting_times_of_commands_are_measured(tmp_path: Path) -> None:
    table = bench(tmp_path, "bench", "--rounds", "1", "--only", "again", "scale", "--nodes", "2")
    assert "second deploy, nothing to do" in table
    assert "run to the last rank's line, 2 nodes" in table


def test_the_cost_of_monitoring_is_measured(tmp_path: Path) -> None:
    table = bench(tmp_path, "bench.monitoring_cost", "--pairs", "1", "--seconds", "15", "--settled", "10")
    assert "images/s with everything on" in table
    assert "64 nodes, simulated" in table


@pytest.mark.skipif(os.geteuid() != 0, reason="tc in the network namespace of a node needs root")
def test_a_slow_link_is_measured(tmp_path: Path) -> None:
    table = bench(tmp_path, "bench.link", *LINK)
    assert "over mpi, link 1gbit" in table
    assert "without means within nodes first, link 1gbit" in table


@pytest.mark.skipif(os.geteuid() != 0, reason="quotas of control groups and TUN devices need root")
def test_predictions_are_compared_with_runs(tmp_path: Path) -> None:
    delayed = "200 Mbit/s + 2 ms"
    table = bench(tmp_path, "bench.prediction", "--model", "resnet20", "--link", delayed)
    assert f"| resnet20 | {delayed} | 2 |" in table
    assert f"| resnet20 | {delayed} | 4 |" in table
    assert "of 2 inside the 90 % band" in table


def test_intervals_of_studies_are_counted(tmp_path: Path) -> None:
    table = bench(tmp_path, "bench.studies", "--studies", "1", "--steps", "3")
    assert "A/A studies whose interval contains 1, of 1" in table
    assert "time of a study" in table


def test_the_bench_of_a_gpu_passes_its_dry_run(tmp_path: Path) -> None:
    table = run(tmp_path, ["bench/gpu.sh", "--dry-run"], "gpu.md")
    assert "| ours | bfloat16 | 2 |" in table
    assert "failed" not in table
