"""Ours in ``bench.train``: runs as the control side resolves and launches them, in one container."""

import itertools
import json
import re
import statistics
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.train_place import Place
from orchestrator import launch, recipes
from orchestrator.cluster import PYTHON, SHARED
from orchestrator.config import Launch, Train
from orchestrator.launch import Run
from orchestrator.schema import Results, TrainConfig
from tests import samples

EPOCHS = 3  # of which the first is not measured
HOROVODS_CYCLE = 1.0  # ms
FIRST = re.compile(r"step (\d+)/")
MEMORY = 4 << 30  # bytes per rank: what a run notes down, nothing here depends on it
NUMBERS = itertools.count(1)


@dataclass(frozen=True)
class Work:
    """What is trained: so many steps an epoch, of ``batch`` images per rank; of a ``table`` rows for images."""

    model: str
    pixels: int
    batch: int
    steps: int
    classes: int
    channels: int = 3
    table: bool = False


def run(place: Place, work: Work, world: int, threads: int, precision: str | None = None, epochs: int = EPOCHS) -> Run:
    """A run whose directory holds all that it needs."""
    name = f"{work.model}-bench-{next(NUMBERS)}"
    prepared = Run(
        id=name,
        kind=f"{work.model}-synthetic",
        command=[PYTHON, "-m", "orchestrator.trainer.train", launch.directory(name)],
        workdir=launch.directory(name),
        np=world,
        controller=Launch().controller,
        interface="lo",
        threads=threads,
        memory=MEMORY,
        started=time.time(),
    )
    directory = place.shared / "runs" / name
    (directory / "ranks").mkdir(parents=True)
    _resolved(place, work, prepared, precision, epochs).write(directory / "config.json")
    return prepared


def _resolved(place: Place, work: Work, run: Run, precision: str | None, epochs: int) -> TrainConfig:
    """Recipe, then what would be flags; of the synthetic data as much as the epochs take."""
    given: dict[str, Any] = {"epochs": epochs, "batch_size": work.batch}
    given |= {"precision": precision} if precision else {}
    if work.table:
        data, remote = _table(place, work), f"{SHARED}/data"
        train = Train(model=work.model, dataset="sdss", data=data, **given)
    else:
        remote, train = None, Train(model=work.model, dataset="synthetic", image_size=work.pixels, **given)
    images = work.steps * work.batch * run.np
    return recipes.resolve(train, run.id, remote, images, run.np, run.threads, work.batch)


def _table(place: Place, work: Work) -> Path:
    """A table of the sky with so many rows that those which are not held out are an epoch."""
    rows = [samples.sky(number) for number in range(work.steps * work.batch * 10 // 9)]
    return samples.table(place.shared / "data" / "sky.csv", rows)


def precision(place: Place, work: Work) -> str:
    """The one that a run settles on where nobody says."""
    return alone(place, run(place, replace(work, steps=1), 1, len(place.cores), epochs=1)).config.precision


def results(place: Place, run: Run) -> Results:
    return Results.model_validate_json((place.shared / "runs" / run.id / "results.json").read_text())


def rate(found: Results) -> float:
    """Images/s of all ranks together: the median over the epochs but the first."""
    return statistics.median(epoch.images_per_second for epoch in found.epochs[1:])


def alone(place: Place, run: Run) -> Results:
    """Train on one rank that nobody launches."""
    place.run(run.command, launch.environment(run))
    return results(place, run)


def together(place: Place, run: Run, horovods: bool = False) -> Results:
    """Train by horovodrun, each rank on a core of its own.

    With Horovod's own defaults where they are wanted: a cycle of 1 ms, and a cache of responses.
    """
    directory = place.shared / "runs" / run.id
    (directory / "hostfile").write_text(f"localhost slots={run.np}\n")
    cores = " ".join(map(str, place.cores))
    pinned = f"set -- {cores}; shift $HOROVOD_LOCAL_RANK; exec taskset --cpu-list $1 {' '.join(run.command)}"
    (directory / "program.json").write_text(json.dumps(["sh", "-c", pinned]))
    run = run.model_copy(update={"cycle_time": HOROVODS_CYCLE}) if horovods else run
    command = [word for word in launch.launch_command(run) if not (horovods and word == "--disable-cache")]
    place.run(command, launch.environment(run))
    return results(place, run)


def apart(place: Place, runs: Sequence[Run]) -> list[Results]:
    """Train at the same time, each on a core of its own, knowing nothing of each other."""
    each = [f"taskset --cpu-list {core} {' '.join(run.command)} &" for core, run in zip(place.cores, runs, strict=True)]
    place.run(["sh", "-c", f"{' '.join(each)} wait"], launch.environment(runs[0]))
    return [results(place, run) for run in runs]


def first_step(place: Place, run: Run) -> float:
    """Seconds from the exec of a rank to the end of its first step, of which it says so where that takes a second."""
    command = place.command(["sh", "-c", f"date +%s.%N; exec {' '.join(run.command)}"], launch.environment(run))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:
        assert running.stdout
        begun = float(running.stdout.readline())
        step = next((found[1] for line in running.stdout if (found := FIRST.search(line))), None)
        seconds = time.time() - begun
        running.communicate()
    assert step == "1", f"the first step that was heard of is {step}"
    return seconds
