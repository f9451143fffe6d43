"""Ranks beside as many independent processes on the same cores, of ``bench.train``."""

import statistics
from dataclasses import replace

from bench import train_ours as ours
from bench.harness import Row
from bench.train_contestants import Contestants, Sitting
from bench.train_ours import RESNET50, Work

SMOKE = Work("resnet20", 32, 2, 2, 10)  # it starts in a third of the time


def ranks(sitting: Sitting) -> list[Row]:
    """Compare two ranks of one core each with two independent processes."""
    own, horovod, apart = (
        "2 ranks, 1 core each, ResNet-50, per rank",
        "the same, Horovod's defaults",
        "2 processes apart",
    )
    measured = sitting.compare(_ranks(sitting, 2, own, apart, horovod))
    return [sitting.paired(measured, own, apart, "≥ 0.95"), sitting.paired(measured, horovod, apart)]


def half_cores(sitting: Sitting) -> list[Row]:
    """Compare four ranks on two cores with four independent processes on these."""
    own, apart = "4 ranks, half a core each, ResNet-50, per rank", "4 processes apart"
    return [sitting.paired(sitting.compare(_ranks(sitting, 4, own, apart)), own, apart, "≥ 0.9")]


def _ranks(sitting: Sitting, count: int, own: str, apart: str, horovod: str = "") -> Contestants:
    """Return contestants by name: ranks, independent processes, and if named ranks with Horovod's defaults."""
    cores = sitting.place.cores[:2]
    assert len(cores) == 2, "ranks need two cores"
    place, work = replace(sitting.place, cores=cores * (count // 2)), sitting.work(SMOKE if sitting.smoke else RESNET50)

    def launched(defaults: bool) -> float:
        run = ours.run(place, work, count, 1)
        return ours.rate(ours.train_on_ranks(place, run, horovods=defaults)) / count

    def independent() -> float:
        results = ours.train_independently(place, [ours.run(place, work, 1, 1) for _ in range(count)])
        return statistics.mean(map(ours.rate, results))

    others = {horovod: lambda: launched(True)} if horovod else {}
    return {own: lambda: launched(False), **others, apart: independent}
