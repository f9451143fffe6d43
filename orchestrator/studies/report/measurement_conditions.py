"""Facts that a reader of the numbers must know: scaling, threads, machine, versions, and shrunk settings. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from statistics import median

from orchestrator import recipes
from orchestrator.schema import Results
from orchestrator.schema.studies import Launch
from orchestrator.studies import confidence_intervals
from orchestrator.studies.report import cells, number_text
from orchestrator.studies.report.cells import Summary
from orchestrator.studies.report.study_directory import StudyFiles

DISTURBED = 0.1  # share of the machine that other programs used


def facts(study: StudyFiles, summaries: Sequence[Summary]) -> dict[str, str]:
    """Return the facts of a study by name."""
    results = study.results.values()
    configs = [run.config for run in results]
    return {
        name: text
        for name, text in {
            "measured": _dates(study.launches),
            "launches": _launches(study.launches),
            "ratios are to": number_text.plain(cells.base_name(study))
            if any(summary.ratio for summary in summaries)
            else "",
            "scaling": scaling(summaries),
            "shrunk": shrunk(study),
            "test samples": test_samples(summaries),
            "threads per rank": _distinct(config.threads for config in configs),
            "precision": _distinct(config.precision for config in configs),
            "image size": _distinct(config.image_size for config in configs),
            "seed": _distinct(config.seed for config in configs),
            "other programs": _busy(study.launches),
            **{number_text.plain(name): number_text.plain(text) for name, text in study.machine.items()},
            "versions": versions(summaries),
        }.items()
        if text
    }


def shrunk(study: StudyFiles) -> str:
    """Return the settings that were made smaller than in the study."""
    keys = study.about.shrunk_keys
    return number_text.plain(", ".join(f"{key} {value}" for key, value in keys.items())) or "nothing"


def test_samples(summaries: Iterable[Summary]) -> str:
    """Return how many test samples accuracies are of if they are not of the whole test, else nothing."""
    limits = sorted({summary.test_samples for summary in summaries if summary.test_samples})
    return f"the first {' or '.join(f'{limit:,}' for limit in limits)}" if limits else ""


def partly_tested(summaries: Iterable[Summary]) -> list[str]:
    """Return a sentence if accuracies are not of the whole test, else nothing."""
    limits = test_samples(summaries)
    text = f"Accuracies are of {limits} test samples, not of the whole test, and are not compared with published ones."
    return [text] if limits else []


def other_threads(summaries: Sequence[Summary]) -> list[str]:
    """Return a sentence for each number of threads that differs from that of the base case.

    Local nodes share the cores of one machine: the more nodes, the fewer cores has each rank.
    """
    threads = {summary.cell.key: summary.results[0].config.threads for summary in summaries if summary.results}
    pairs = {(threads.get(summary.cell.key), threads.get(summary.base.key)) for summary in summaries}
    return [
        f"Threads per rank: {own}, in the base case {base}. Its speed-up and efficiency compare numbers of cores, too."
        for own, base in sorted((own, base) for own, base in pairs if own and base and own != base)
    ]


def parts_of_datasets(summaries: Iterable[Summary]) -> list[str]:
    """Return a sentence for each data set of which runs used only a part, else nothing."""
    parts = {
        (run.config.dataset, part): None for summary in summaries for run in summary.results for part in _part(run)
    }
    return [f"Only a part of {dataset} was used: {part}." for dataset, part in parts]


def _part(run: Results) -> Iterator[str]:
    """Yield how many images of a split were used if that is fewer than it has, by more than a step's remainder."""
    whole, rest = recipes.datasets().get(run.config.dataset, {}), run.effective_batch_size + run.world.size
    used = {"train": [epoch.train.images for epoch in cells.whole_epochs(run)]}
    used["test"] = [] if run.config.test_samples else [epoch.test.images for epoch in run.epochs]
    for split, images in used.items():
        if images and max(images) + rest < whole.get(split, 0):
            yield f"{max(images):,} of {whole[split]:,} {'training' if split == 'train' else split} images"


def scaling(summaries: Iterable[Summary]) -> str:
    """Return whether ranks add work (weak scaling) or share it (strong scaling)."""
    batches: dict[tuple[object, str], dict[int, int]] = {}
    for summary in summaries:
        if summary.results:
            sizes = batches.setdefault((summary.group, summary.series), {})
            sizes[summary.cell.ranks] = summary.results[0].effective_batch_size
    kinds = {kind for by_ranks in batches.values() if (kind := _kind(by_ranks))}
    return ", ".join(sorted(kinds))


def _kind(sizes: Mapping[int, int]) -> str:
    """Return the kind of scaling from the effective batch size by number of ranks."""
    if len(sizes) < 2:
        return ""
    if len(set(sizes.values())) == 1:
        return "strong: the batch of all ranks together is the same"
    if len({size / ranks for ranks, size in sizes.items()}) == 1:
        return "weak: each rank has the same batch, so more ranks mean a larger one together"
    return "mixed: neither the batch of a rank nor that of all ranks is the same"


def aa_sentence(summaries: Iterable[Summary]) -> str:
    """Return whether the A/A pair, two equal cells that were measured as if they differed, gave the ratio 1."""
    sentences = [_aa(summary) for summary in summaries if summary.again]
    return " ".join(sentences) or "No cell was measured twice (A/A): nothing shows that equal cells give equal numbers."


def aa_holds(summary: Summary) -> bool | None:
    """Return whether the interval of the A/A pair holds 1; None if it has no interval."""
    return confidence_intervals.holds(cells.aa(summary))


def _aa(summary: Summary) -> str:
    pair, name = cells.aa(summary), cell_name(summary)
    if pair is None or pair.interval is None:
        return f"The A/A pair ({name}) has too few rounds for an interval: {pair.n if pair else 0}, at least 6 needed."
    ratio = f"{number_text.factor(pair.value)}, 95 % interval {number_text.factor(pair.interval.low)} to "
    ratio += f"{number_text.factor(pair.interval.high)}, {pair.n} rounds"
    if confidence_intervals.holds(pair):
        return f"The same cell measured as two ({name}) has the ratio {ratio}: it holds 1, as it should."
    return (
        f"The same cell measured as two ({name}) has the ratio {ratio}: it does NOT hold 1. Differences of this size "
        "between other cells may come from the machine; measure again."
    )


def cell_name(summary: Summary) -> str:
    """Return the name of a cell."""
    ranks = summary.cell.ranks
    return number_text.plain(f"{summary.group}, {summary.series}, {ranks} rank{'s' * (ranks > 1)}")


def versions(summaries: Iterable[Summary]) -> str:
    """Return the versions of all results; those that differ between engines with all their values."""
    by_name: dict[str, dict[str, None]] = {}
    for summary in summaries:
        for results in summary.results:
            for name, version in results.versions.items():
                by_name.setdefault(name, {})[version] = None
    return number_text.plain(", ".join(f"{name} {' or '.join(values)}" for name, values in by_name.items()))


def _dates(launches: Sequence[Launch]) -> str:
    if not launches:
        return ""
    times = sorted(launch.started for launch in launches)
    first, last = (datetime.fromtimestamp(time, timezone.utc) for time in (times[0], times[-1]))
    return f"{first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC"


def _launches(launches: Sequence[Launch]) -> str:
    failed = sum(launch.problem is not None for launch in launches)
    rounds = len({launch.round for launch in launches})
    missing = f", {failed} without a measurement" if failed else ""
    return f"{len(launches)} in {rounds} round{'s' * (rounds != 1)}{missing}"


def _busy(launches: Sequence[Launch]) -> str:
    if not launches:
        return ""
    shares = [launch.busy for launch in launches]
    disturbed = sum(share > DISTURBED for share in shares)
    return (
        f"used {number_text.percent(median(shares))} % of the CPU time just before a launch (median), at most "
        f"{number_text.percent(max(shares))} %; more than {number_text.percent(DISTURBED)} % before {disturbed} of them"
    )


def disturbed(launches: Sequence[Launch]) -> list[str]:
    """Return a sentence if other programs used much of the machine just before launches that count, else nothing."""
    busy = sum(launch.busy > DISTURBED for launch in launches)
    if not busy:
        return []
    share = f"more than {number_text.percent(DISTURBED)} % of the machine"
    return [f"{busy} of {len(launches)} launches began while other programs used {share}: intervals are wider for it."]


def _distinct(values: Iterable[object]) -> str:
    return number_text.plain(", ".join(sorted({str(value) for value in values})))
