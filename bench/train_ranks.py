"""Ranks beside as many independent processes on the same cores, of ``bench.train``."""

import statistics
from dataclasses import replace

from bench import train_ours as ours
from bench.harness import Row
from bench.train_containers import Place
from bench.train_contestants import Contestants, Sitting
from bench.train_ours import RESNET50, Work

SMOKE = Work("resnet20", 32, 2, 2, 10)  # it starts in a third of the time


def ranks(sitting: Sitting) -> list[Row]:
    """Compare two ranks of one core each with two independent processes, and with ranks that exchange nothing."""
    own, apart = "2 ranks, 1 core each, ResNet-50, per rank", "2 processes apart"
    contestants: Contestants = {
        own: lambda: _launched(sitting, 2),
        DEFAULTS: lambda: _launched(sitting, 2, horovods=True),
        LOCKSTEP: lambda: _launched(sitting, 2, lockstep=True),
        apart: lambda: _independent(sitting, 2),
    }
    measured = sitting.compare(contestants)
    rows = [(own, apart, "≥ 0.95"), (DEFAULTS, apart, ""), (LOCKSTEP, apart, ""), (own, LOCKSTEP, "")]
    return [sitting.paired(measured, *row) for row in rows]


DEFAULTS, LOCKSTEP = "the same, Horovod's defaults", "the same, only waiting for each other"


def half_cores(sitting: Sitting) -> list[Row]:
    """Compare four ranks on two cores with four independent processes on these."""
    own, apart = "4 ranks, half a core each, ResNet-50, per rank", "4 processes apart"
    measured = sitting.compare({own: lambda: _launched(sitting, 4), apart: lambda: _independent(sitting, 4)})
    return [sitting.paired(measured, own, apart, "≥ 0.9")]


def _launched(sitting: Sitting, count: int, **options: bool) -> float:
    """Return the images/s of each of ``count`` ranks; the options are those of ``ours.train_on_ranks``."""
    place, work = _on_two_cores(sitting, count)
    return ours.rate(ours.train_on_ranks(place, ours.run(place, work, count, 1), **options)) / count


def _independent(sitting: Sitting, count: int) -> float:
    """Return the mean images/s of ``count`` processes that train at the same time."""
    place, work = _on_two_cores(sitting, count)
    results = ours.train_independently(place, [ours.run(place, work, 1, 1) for _ in range(count)])
    return statistics.mean(map(ours.rate, results))


def _on_two_cores(sitting: Sitting, count: int) -> tuple[Place, Work]:
    """Return a place with a core for each of ``count`` processes, on two cores in all, and what they train."""
    cores = sitting.place.cores[:2]
    assert len(cores) == 2, "ranks need two cores"
    return replace(sitting.place, cores=cores * (count // 2)), sitting.work(SMOKE if sitting.smoke else RESNET50)
