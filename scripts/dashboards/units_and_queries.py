"""Common vocabulary of all dashboards: colours, units, scales, and frequent queries."""

from dataclasses import dataclass
from itertools import pairwise

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard, units

BEYOND = 1e300  # any value
SOURCE = dashboard.DataSourceRef(type_val="prometheus", uid="prometheus")
SCRAPE_INTERVAL = "5s"

GREEN, AMBER, RED, GREY, BLUE, PURPLE = "green", "orange", "red", "#808080", "blue", "purple"
NO_COLOUR = "transparent"
PARTS = {"input": AMBER, "compute": BLUE, "communication": PURPLE}  # of a training step
COLOURS = {2: (GREEN, RED), 3: (GREEN, AMBER, RED)}

SHARE, SECONDS, DURATION = units.PercentUnit, units.Seconds, units.DurationSeconds
BITS_PER_SECOND, BYTES, PERCENT = units.BitsPerSecondSI, units.BytesIEC, units.Percent
CELSIUS, WATTS, HERTZ, COUNT, PACKETS = units.Celsius, units.Watt, units.Hertz, units.NoUnit, units.PacketsPerSecond
IMAGES_PER_SECOND, TIMES, NATS = "suffix: images/s", "suffix:x", "suffix: nats"
LEAST = {SHARE: 0.01, PACKETS: 10.0}  # minimum span of an axis: Grafana's is 100 if all values are 0


@dataclass(frozen=True)
class Scale:
    """Judgement of a value: limits, and one word and one colour more than there are limits.

    ``limits`` are in the unit of the panel and ascend; ``colours`` default to green, amber, red.
    """

    limits: tuple[float, ...]
    words: tuple[str, ...]
    colours: tuple[str, ...] = ()

    def thresholds(self) -> build.ThresholdsConfig:
        """Return the colours as Grafana's absolute thresholds."""
        colours = self.colours or COLOURS[len(self.words)]
        steps = zip((None, *self.limits), colours, strict=True)
        config = build.ThresholdsConfig()
        config.mode(dashboard.ThresholdsMode.ABSOLUTE)
        config.steps([dashboard.Threshold(value=value, color=colour) for value, colour in steps])
        return config

    def mappings(self) -> list[dashboard.ValueMapping]:
        """Return the words as Grafana's value mappings; for an empty word the number stays.

        Grafana takes the first mapping that matches, so the highest range comes first: then a value at a limit has the
        word above it, as it has the colour. Grafana takes an open end for 0, so the ends are very large numbers.
        """
        ranges = pairwise((-BEYOND, *self.limits, BEYOND))
        worded = enumerate(reversed(list(zip(ranges, self.words, strict=True))))
        return [_in_words(index, low, high, word) for index, ((low, high), word) in worded if word]


def nothing(text: str, colour: str = GREY) -> dashboard.SpecialValueMap:
    """Map a missing value to ``text``; otherwise Grafana shows it in the colour of the lowest range."""
    result = dashboard.ValueMappingResult(text=text, color=colour)
    return dashboard.SpecialValueMap(
        options=dashboard.DashboardSpecialValueMapOptions(match=dashboard.SpecialValueMatch.NULL, result=result)
    )


def _in_words(index: int, low: float, high: float, text: str) -> dashboard.RangeMap:
    result = dashboard.ValueMappingResult(text=text, index=index)
    return dashboard.RangeMap(options=dashboard.DashboardRangeMapOptions(from_val=low, to=high, result=result))


PLAIN = Scale((), ("",), (BLUE,))
ALIVE = Scale((0.5,), ("down", "alive"), (RED, GREEN))
DOWN = Scale((0.5,), ("all alive", "down"))
ALERTS = Scale((0.5,), ("quiet", "firing"))
CPU = Scale((0.8, 0.95), ("room", "busy", "full"), (GREEN, BLUE, AMBER))  # training on CPUs should use all of them
MEMORY = Scale((0.8, 0.92), ("room", "tight", "scarce"))
DISK = Scale((0.8, 0.9), ("room", "filling", "scarce"))
INPUT_WAIT = Scale((0.05, 0.2), ("fed", "waits at times", "starved"))
COMMUNICATION = Scale((0.2, 0.5), ("not the limit", "costs time", "the limit"))
STRAGGLER = Scale((1.1, 1.2), ("even", "uneven", "slow"))
EFFICIENCY = Scale((0.6, 0.85), ("poor", "fair", "good"), (RED, AMBER, GREEN))
UTILISATION = Scale((0.5, 0.8), ("room", "busy", "saturated"))
RETRANSMITS = Scale((0.001, 0.01), ("clean", "some loss", "lossy"))
FAULTS = Scale((0.001, 1), ("none", "some", "many"))
LINK = Scale((0.9e9, 9e9), ("slow", "fair", "fast"), (AMBER, BLUE, GREEN))  # bits/s
RESTARTS = Scale((0.5, 3), ("none", "some", "many"))
NO_GPUS = Scale((0.5,), ("no GPUs", ""), (GREY, BLUE))
GPU_USE = Scale((5, 50, 80), ("idle", "starved", "partly used", "busy"), (GREY, RED, AMBER, GREEN))
GPU_MEMORY = Scale((0.9, 0.97), ("room", "tight", "scarce"))
TEMPERATURE = Scale((80, 85), ("cool", "warm", "hot"))
BROKEN = Scale((0.5,), ("none", "broken"))
THROTTLED = Scale((0.5,), ("none", "throttled"))
LEFT = Scale((-0.5, 0.5), ("not known yet", "ended", ""), (BLUE, GREY, BLUE))
PROGRESS = Scale((1,), ("under way", "done"), (BLUE, GREEN))


def average(series: str) -> str:
    """Return a query for the mean of a series over the dashboard's range."""
    return f"avg_over_time({series}[$__range])"


def last(series: str) -> str:
    """Return a query for the last sample of a series in the dashboard's range, so that ended runs still show."""
    return f"last_over_time({series}[$__range])"


def pace(labels: str) -> str:
    """Return a query for images/s of whole runs, over all steps but the first, which traces; by run.

    It uses the last values of the counters, so that the first and last seconds of a window do not count as slow.
    """
    batch, steps, spent = (
        f"{kind} by (run, model, dataset, rank) ({last(f'orchestrator_training_{name}{{{labels}}}')})"
        for kind, name in (("max", "batch_size"), ("sum", "step_seconds_count"), ("sum", "step_seconds_sum"))
    )
    return f"sum by (run, model, dataset) ({batch} * {steps} / ({spent} > 0))"


def share(part: str, labels: str) -> str:
    """Return a query for the share of one part in the time of all steps so far, 0 to 1; by run."""
    spent = last(f'orchestrator_training_step_part_seconds_sum{{{labels}, part="{part}"}}')
    of = last(f"orchestrator_training_step_seconds_sum{{{labels}}}")
    return f"sum by (run, model, dataset) ({spent}) / (sum by (run, model, dataset) ({of}) > 0)"
