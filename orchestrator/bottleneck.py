"""The bottleneck of a training run and advice, derived from the split of its steps in results.json. Pure.

A synchronous step takes equally long on every rank. A rank's own part of a step is input and compute; the rest is its
communication, which consists of the exchange of gradients and the wait for slower ranks. The slowest rank does not wait
for others, so its communication is the exchange itself. Shares of a step are therefore comparable, and the largest one
names what to change:

=============  =================================================  ==========
bound by       share of a step                                    from
=============  =================================================  ==========
``input``      blocked on the next batch, mean over the ranks     10 %
``straggler``  the slowest rank's own part, beyond the median of  10 %
               the others
``network``    communication of the slowest rank                  15 %
``compute``    computing, mean over the ranks                     otherwise
=============  =================================================  ==========

Removing a share s makes a run 1 / (1 - s) times as fast; a gain below 1.1 is lost in the noise between two runs. Some
exchange remains with any settings, so the threshold of the network is 15 %. Jitter from step to step does not show in
means: it counts as exchange.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import fmean, median
from typing import Literal

from orchestrator.schema import LOCAL_DATA, Epoch, Results, StepTimes, Unfinished

Bound = Literal["input", "straggler", "network", "compute"]
FROM: dict[Bound, float] = {"input": 0.10, "straggler": 0.10, "network": 0.15}


@dataclass(frozen=True)
class Explanation:
    """The bottleneck of a run.

    ``share`` is the part of a step, 0 to 1, spent on the bottleneck; ``finding`` is a clause without a full stop.
    """

    bound: Bound
    share: float
    finding: str
    advice: list[str]

    def __str__(self) -> str:
        return f"{self.finding}. To try: {'; '.join(self.advice)}"


def explain(results: Results) -> Explanation | None:
    """Find the bottleneck of a run; None if no step was split, as in a run of one step."""
    ranks = split(results)
    whole = fmean(map(sum, ranks)) if ranks else 0.0
    if not whole:
        return None
    shares = _shares(ranks, whole)
    beyond = [bound for bound in FROM if shares[bound] >= FROM[bound]]
    bound: Bound = max(beyond, key=lambda index: shares[index], default="compute")
    finding, advice = EXPLAINED[bound](results, ranks, f"{shares[bound] * 100:.0f} %")
    return Explanation(bound, shares[bound], finding, advice)


def split(results: Results) -> list[StepTimes]:
    """Return the means of every rank over all steps of this run that were split; an empty list if none were."""
    epochs, counted = list(_split_epochs(results)), 0
    sums = [[0.0] * 3 for _ in epochs[0][1].input_seconds] if epochs else []  # a file may overstate world.size
    for steps, epoch in epochs:
        parts = zip(epoch.input_seconds, epoch.compute_seconds, epoch.communication_seconds, strict=True)
        sums = [[s + steps * p for s, p in zip(*both, strict=True)] for both in zip(sums, parts, strict=True)]
        counted += steps
    return [StepTimes(*(value / counted for value in rank)) for rank in sums] if counted else []


def _split_epochs(results: Results) -> Iterator[tuple[int, Epoch | Unfinished]]:
    """Yield step count and epoch for each epoch of this run that has a split for every rank.

    The first step of the run is not counted.
    """
    before = results.steps_before + 1
    for epoch in results.epochs:
        if epoch.epoch > results.epochs_before:
            steps, before = epoch.steps - before, epoch.steps
            if steps > 0 and _is_split(epoch, results.world.size):
                yield steps, epoch
    if results.unfinished and _is_split(results.unfinished, results.world.size):
        yield results.unfinished.steps, results.unfinished


def _is_split(epoch: Epoch | Unfinished, ranks: int) -> bool:
    return all(len(part) == ranks for part in (epoch.input_seconds, epoch.compute_seconds, epoch.communication_seconds))


def _shares(ranks: list[StepTimes], whole: float) -> dict[Bound, float]:
    """Return the share of each cause in the ``whole`` seconds of a step."""
    return {
        "input": fmean(rank.input for rank in ranks) / whole,
        "straggler": _slowest(ranks)[1] / whole,
        "network": min(rank.communication for rank in ranks) / whole,
        "compute": fmean(rank.compute for rank in ranks) / whole,
    }


def _slowest(ranks: list[StepTimes]) -> tuple[int, float]:
    """Return the slowest rank and its seconds per step beyond the median of the others."""
    slowest = max(range(len(ranks)), key=lambda rank: ranks[rank].without_waiting)
    others = _without(ranks, slowest)
    return slowest, ranks[slowest].without_waiting - median(rank.without_waiting for rank in others) if others else 0.0


def _without(ranks: list[StepTimes], index: int) -> list[StepTimes]:
    return ranks[:index] + ranks[index + 1 :]


NOT_THE_BATCH = "a larger --batch-size does not help, because each image needs the same data"


def _input(results: Results, _: list[StepTimes], share: str) -> tuple[str, list[str]]:
    advice = [f"more cores per rank (each has {results.config.threads}): larger machines, or fewer slots on each"]
    if results.config.dataset == "imagenet":
        advice += [_reading(results), "images stored in fewer pixels, which decode faster"]
    return f"input-bound: {share} of the step waits for data", [*advice, NOT_THE_BATCH]


def _reading(results: Results) -> str:
    """Advise on the storage that the run reads from."""
    path = results.data_path or ""
    if path.startswith(LOCAL_DATA):
        return "faster disks, if cores are idle"
    prepare = "" if path.endswith("-records") else "`orchestrator data prepare`, then "
    return f"if cores are idle, {prepare}`orchestrator data stage`, which copies shards to every node's own disk"


def _straggler(results: Results, ranks: list[StepTimes], share: str) -> tuple[str, list[str]]:
    slowest, beyond = _slowest(ranks)
    slow, others, host = ranks[slowest], _without(ranks, slowest), results.world.hosts[slowest]
    usual = StepTimes(*(median(part) for part in zip(*others, strict=True)))
    who = "the other" if len(others) == 1 else "the median of the others"
    if slow.input - usual.input > beyond / 2:
        does = f"waits {slow.input * 1e3:.0f} ms per step for data, {who} {usual.input * 1e3:.0f} ms"
        advice = [f"check whether another program uses the cores, disk or network of {host}"]
    else:
        does = f"computes {slow.compute / max(usual.compute, 1e-9):.1f} x as long as {who}"
        advice = ["nodes of the same type", f"check whether another program runs on {host}, or one of its GPUs is hot"]
    return f"one rank is slow: rank {slowest} on {host} {does}; {share} of the step is spent waiting for it", advice


def _network(results: Results, _: list[StepTimes], share: str) -> tuple[str, list[str]]:
    config, passes = results.config, results.config.backward_passes_per_step
    batch = results.effective_batch_size // results.world.size // passes
    advice = [f"a --batch-size above {batch}, which exchanges gradients less often per image"]
    advice += [f"if memory does not allow that, --backward-passes-per-step {2 * passes}, which has the same effect"]
    if config.adasum and config.compression == "none":
        advice += ["--compression fp16, which halves the bytes sent"]
    elif config.compression == "none" and not (config.precision == "bfloat16" and "compression" in results.chosen):
        advice += ["--compression bf16 on a slow network, or fp16 on GPUs: both halve the bytes sent"]
    advice += ["`orchestrator check`, which measures the network"]
    return f"network-bound: {share} of the step waits for the exchange of gradients", advice


def _compute(results: Results, _: list[StepTimes], share: str) -> tuple[str, list[str]]:
    advice = ["more nodes"]
    if results.config.precision == "float32" and "precision" not in results.chosen:
        advice += ["--precision bfloat16 on GPUs, and on CPUs with AVX512_BF16 (`lscpu` lists it)"]
    return f"compute-bound: {share} of the step is spent computing, the best case", advice


EXPLAINED: dict[Bound, Callable[[Results, list[StepTimes], str], tuple[str, list[str]]]] = {
    "input": _input,
    "straggler": _straggler,
    "network": _network,
    "compute": _compute,
}
