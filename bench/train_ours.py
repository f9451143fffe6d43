"""The trainer as a contestant of ``bench.train``: runs are resolved and launched as by the orchestrator, in one
container.
"""

import itertools
import json
import os
import re
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.train_containers import Place
from orchestrator import recipes
from orchestrator.cluster import PYTHON, SHARED
from orchestrator.config import Train
from orchestrator.launch_layout import Layout
from orchestrator.runs import run_record
from orchestrator.runs.launchers import horovod
from orchestrator.runs.run_record import Run
from orchestrator.schema import Results, TrainConfig
from tests import samples

CONTROLLER = "gloo"  # ranks of one machine use no other
EPOCHS = 3  # the first is not measured
HOROVODS_CYCLE = 1.0  # ms
EXEC = re.compile(r"\d+\.\d+")  # a rank is started
FIRST = re.compile(r"step (\d+)/")
MEMORY = 4 << 30  # bytes per rank, as a run records it; nothing here depends on it
NUMBERS = itertools.count(1)


@dataclass(frozen=True)
class Work:
    """A network to train: ``steps`` of ``batch`` images per rank in an epoch, or of rows of a ``table``."""

    model: str
    pixels: int
    batch: int
    steps: int
    classes: int
    channels: int = 3
    table: bool = False


RESNET50 = Work("resnet50", pixels=128, batch=32, steps=6, classes=1000)


def run(place: Place, work: Work, world: int, threads: int, precision: str | None = None, epochs: int = EPOCHS) -> Run:
    """Create a run with all files in its directory.

    Args:
        place: Where it runs.
        work: The network to train.
        world: Number of ranks.
        threads: Threads per rank.
        precision: Precision of training; None for the default.
        epochs: Number of epochs.

    Returns:
        The run.
    """
    name = f"{work.model}-bench-{next(NUMBERS)}"
    prepared = Run(
        id=name,
        kind=f"{work.model}-synthetic",
        command=[PYTHON, "-m", "orchestrator.trainer.train", run_record.directory(name)],
        workdir=run_record.directory(name),
        np=world,
        controller=CONTROLLER,
        interface="lo",
        cycle_time=recipes.gradient_exchange.CYCLE_TIME,
        threads=threads,
        memory=MEMORY,
        started=time.time(),
    )
    directory = place.shared / "runs" / name
    (directory / "ranks").mkdir(parents=True)
    _resolved(place, work, prepared, precision, epochs).write(directory / "config.json")
    return prepared


def _resolved(place: Place, work: Work, run: Run, precision: str | None, epochs: int) -> TrainConfig:
    """Resolve recipe and options, with as much synthetic data as the epochs need."""
    options: dict[str, Any] = {"epochs": epochs, "batch_size": work.batch}
    options |= {"precision": precision} if precision else {}
    if work.table:
        data, remote = _table(place, work), f"{SHARED}/data"
        train = Train(model=work.model, dataset="sdss", data=data, **options)
    else:
        remote, train = None, Train(model=work.model, dataset="synthetic", image_size=work.pixels, **options)
    images = work.steps * work.batch * run.np
    return recipes.resolve(train, run.id, remote, images, run.np, run.threads, work.batch)


def _table(place: Place, work: Work) -> Path:
    """Write a table of the sky with enough rows for one epoch of training rows."""
    rows = [samples.sky(number) for number in range(work.steps * work.batch * 10 // 9)]
    return samples.table(place.shared / "data" / "sky.csv", rows)


def precision(place: Place, work: Work) -> str:
    """Return the precision that a run chooses by default."""
    return train_on_one_rank(place, run(place, replace(work, steps=1), 1, len(place.cores), epochs=1)).config.precision


def results(place: Place, run: Run) -> Results:
    return Results.model_validate_json((place.shared / "runs" / run.id / "results.json").read_text())


def rate(measured: Results) -> float:
    """Return the images/s of all ranks together: the median over the epochs but the first."""
    return statistics.median(epoch.images_per_second for epoch in measured.epochs[1:])


def _alone(run: Run) -> dict[str, str]:
    """Return the environment of one rank without a launcher: with Gloo, as by horovodrun. MPI's start takes 0.3 s."""
    return run_record.environment(run) | dict.fromkeys(("HOROVOD_CONTROLLER", "HOROVOD_CPU_OPERATIONS"), CONTROLLER)


def train_on_one_rank(place: Place, run: Run) -> Results:
    """Train on one rank without a launcher."""
    place.run(run.command, _alone(run))
    return results(place, run)


def train_on_ranks(place: Place, run: Run, horovods: bool = False, lockstep: bool = False) -> Results:
    """Train by horovodrun, each rank on its own core.

    Args:
        place: Where it runs.
        run: The run.
        horovods: Use Horovod's own defaults: a cycle of 1 ms, and a cache of responses.
        lockstep: Let ranks wait for each other at every step, but exchange no gradients.

    Returns:
        The results.
    """
    if lockstep:
        run = run.model_copy(update={"command": [PYTHON, "-m", "bench.train_lockstep", run.directory]})
    directory = place.shared / "runs" / run.id
    (directory / "hostfile").write_text(f"localhost slots={run.np}\n")
    cores = " ".join(map(str, place.cores))
    pinned = f"set -- {cores}; shift $HOROVOD_LOCAL_RANK; exec taskset --cpu-list $1 {' '.join(run.command)}"
    (directory / "program.json").write_text(json.dumps(["sh", "-c", pinned]))
    ranks = ["localhost"] * run.np
    layout = Layout({"localhost": run.np}, ranks, "lo", 1, 120.0, {}, trainer=True)
    (directory / "launch.json").write_text(layout.text())
    run = run.model_copy(update={"cycle_time": HOROVODS_CYCLE}) if horovods else run
    command = [word for word in horovod.command(run) if not (horovods and word == "--disable-cache")]
    own = {"HOROVOD_CYCLE_ON_ENQUEUE": "0"} if horovods else {}
    place.run(command, run_record.environment(run) | own)
    return results(place, run)


def train_independently(place: Place, runs: Sequence[Run]) -> list[Results]:
    """Train independent runs at the same time, each on its own core."""
    words = zip(place.cores, runs, strict=True)
    each = [f'taskset --cpu-list {core} {" ".join(run.command)} & all="$all $!";' for core, run in words]
    wait = "for one in $all; do wait $one || exit; done"
    place.run(["sh", "-c", f"{' '.join(each)} {wait}"], _alone(runs[0]))
    return [results(place, run) for run in runs]


def first_steps(place: Place, runs: Sequence[Run]) -> list[float]:
    """Execute the runs one after the other in one container, so on one node.

    Args:
        place: Where they run.
        runs: Runs with steps of a second or more; a rank reports no more often.

    Returns:
        The seconds from the exec of each rank to the end of its first step.
    """
    each = "; ".join(f"date +%s.%N; {' '.join(run.command)}" for run in runs)
    seconds: list[float] = []
    with place.start(["sh", "-ec", each], _alone(runs[0])) as running:
        assert running.stdout
        for line in _lines(running.stdout.fileno()):
            if EXEC.fullmatch(line):
                started, step = float(line), None
            elif step is None and (step := FIRST.search(line)):
                seconds.append(time.time() - started)
                assert step[1] == "1", f"the first reported step is {step[1]}"
    assert len(seconds) == len(runs), f"{len(seconds)} of {len(runs)} runs reported a step"
    return seconds


def _lines(descriptor: int) -> Iterator[str]:
    """Yield lines at once; a text file would keep a line that ends in a carriage return until more is written."""
    rest = b""
    while piece := os.read(descriptor, 1 << 16):
        *lines, rest = (rest + piece).replace(b"\r", b"\n").split(b"\n")
        yield from (line.decode() for line in lines)
