"""Ranks beside as many independent processes on the same cores, of ``bench.train``."""

import statistics
from dataclasses import replace

from bench import train_ours as ours
from bench.harness import Row
from bench.train_contestants import Contestants, Sitting
from bench.train_ours import RESNET50, Work

SMOKE = Work("resnet20", 32, 2, 2, 10)  # it starts in a third of the time


def ranks(sitting: Sitting) -> list[Row]:
    """Compare two ranks of one core each with two independent processes, and with ranks that exchange nothing."""
    own, apart = "2 ranks, 1 core each, ResNet-50, per rank", "2 processes apart"
    measured = sitting.compare(_ranks(sitting, 2, own, apart))
    rows = [(own, apart, "≥ 0.95"), (DEFAULTS, apart, ""), (LOCKSTEP, apart, ""), (own, LOCKSTEP, "")]
    return [sitting.paired(measured, *row) for row in rows]


DEFAULTS, LOCKSTEP = "the same, Horovod's defaults", "the same, only waiting for each other"


def half_cores(sitting: Sitting) -> list[Row]:
    """Compare four ranks on two cores with four independent processes on these."""
    own, apart = "4 ranks, half a core each, ResNet-50, per rank", "4 processes apart"
    contestants = _ranks(sitting, 4, own, apart)
    measured = sitting.compare({name: contestants[name] for name in (own, apart)})
    return [sitting.paired(measured, own, apart, "≥ 0.9")]


def _ranks(sitting: Sitting, count: int, own: str, apart: str) -> Contestants:
    """Return contestants by name: ranks, also with Horovod's defaults and without exchange, independent processes."""
    cores = sitting.place.cores[:2]
    assert len(cores) == 2, "ranks need two cores"
    place, work = replace(sitting.place, cores=cores * (count // 2)), sitting.work(SMOKE if sitting.smoke else RESNET50)

    def launched(**options: bool) -> float:
        run = ours.run(place, work, count, 1)
        return ours.rate(ours.train_on_ranks(place, run, **options)) / count

    def independent() -> float:
        results = ours.train_independently(place, [ours.run(place, work, 1, 1) for _ in range(count)])
        return statistics.mean(map(ours.rate, results))

    return {
        own: launched,
        DEFAULTS: lambda: launched(horovods=True),
        LOCKSTEP: lambda: launched(lockstep=True),
        apart: independent,
    }
