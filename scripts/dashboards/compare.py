"""*Compare runs*: which of several runs is faster, learns better, and scales."""

from collections.abc import Sequence

from grafana_foundation_sdk.models import dashboard

from scripts.dashboards import navigation
from scripts.dashboards import units_and_queries as v
from scripts.dashboards.common_parts import Section, frame
from scripts.dashboards.panels import Panel, lines, tile
from scripts.dashboards.tables import Column, Rows, curves, listing

NONE, UNTESTED = "no run in this range", "no test yet"
RUNS = 'run=~"$run"'
SINCE_START = ("Since start", f"time() - min by (run) (orchestrator_training_start_time_seconds{{{RUNS}}})")
IMAGES = f"run:orchestrator_training_images:rate30s{{{RUNS}}}"


def ours(name: str, labels: str = RUNS) -> str:
    """Return a metric of the trainer, for these runs."""
    return f"orchestrator_training_{name}{{{labels}}}"


def _of_run(query: str) -> str:
    return f"max by (run, model, dataset) ({query})"


def _split(name: str, split: str) -> str:
    return ours(name, f'{RUNS}, split="{split}"')


EFFICIENCY = v.average(f"run:orchestrator_training_scaling_efficiency:ratio{{{RUNS}}}")
PACE = v.pace(RUNS)
SEEN_LAST = f"max by (run, model, dataset) ({v.last(f'run:orchestrator_training_progress:timestamp{{{RUNS}}}')})"
BEGAN = f"min by (run, model, dataset) ({v.last(ours('start_time_seconds'))})"


def build() -> dashboard.Dashboard:
    """Build the dashboard."""
    sections = [
        Section("", _verdict()),
        Section("Runs", [_runs()]),
        Section("Against time since the start", _learning()),
        Section("Over time", _over_time()),
    ]
    says = "Speed, learning and scaling of several runs."
    variables = [navigation.cluster(), navigation.runs()]
    return frame("orchestrator-compare", says, variables, sections, since="now-6h", refresh="1m")


def _verdict() -> Sequence[Panel]:
    name = "{{run}}"
    lowest = f"bottomk(1, avg by (run) ({v.last(_split('loss', 'train'))}))"
    right = f"max by (run) ({v.last(_split('top1_ratio', 'test'))})"
    panels = [
        tile("Fastest", "Mean images per second.", {name: f"topk(1, {PACE})"}, v.IMAGES_PER_SECOND, NONE),
        tile("Lowest loss", "Of the training data, latest value.", {name: lowest}, v.NATS, NONE),
        tile("Best top-1", "Share of correct test images, latest.", {name: f"topk(1, {right})"}, v.SHARE, UNTESTED),
        tile("Waits most for input", "Share of its steps.", {name: f"topk(1, {v.share('input', RUNS)})"}, v.SHARE, NONE,
             v.INPUT_WAIT),
    ]  # fmt: skip
    for panel in panels:
        panel.span(6)
    return panels


def _runs() -> Panel:
    def latest(name: str) -> str:
        return _of_run(v.last(ours(name)))

    columns = [
        Column("Ranks", latest("world_size"), v.COUNT),
        Column("Images/s", PACE, v.COUNT, decimals=0),
        Column("Efficiency", _of_run(EFFICIENCY), v.SHARE, v.EFFICIENCY),
        Column("Input", v.share("input", RUNS), v.SHARE, v.INPUT_WAIT),
        Column("Compute", v.share("compute", RUNS), v.SHARE),
        Column("Communication", v.share("communication", RUNS), v.SHARE, v.COMMUNICATION),
        Column("Train loss", _of_run(v.last(_split("loss", "train"))), v.COUNT, decimals=3),
        Column("Test top-1", _of_run(v.last(_split("top1_ratio", "test"))), v.SHARE),
        Column("Progress", latest("progress_ratio"), v.SHARE),
        Column("Began", f"{BEGAN} * 1000", "dateTimeFromNow", width=130),
        Column("Took", f"{SEEN_LAST} - {BEGAN}", v.DURATION, width=95),
    ]
    link = "/d/orchestrator-training?var-run=${__value.raw}&${__url_time_range}"
    rows = Rows({"run": "Run", "model": "Model", "dataset": "Data"}, {"run": link}, {"run": 300, "model": 100})
    return listing("Runs", "One row per run: means over the range, and the last scores.", rows, columns, NONE)


def _learning() -> list[Panel]:
    def against(name: str, split: str) -> str:
        return f"avg by (run) ({_split(name, split)})"

    loss, top1 = ("Loss", against("loss", "train")), ("Top-1", against("top1_ratio", "train"))
    return [
        curves("Train loss", "Against time since the run began.", SINCE_START, loss, "run", v.NATS, NONE),
        curves("Train top-1", "Against time since the run began.", SINCE_START, top1, "run", v.SHARE, NONE),
    ]


def _over_time() -> list[Panel]:
    run = "{{run}}"
    shares = {part: f"run:orchestrator_training_{part}:ratio{{{RUNS}}}" for part in ("input", "communication")}
    return [
        lines("Images per second", "All ranks of a run.", {run: IMAGES}, v.IMAGES_PER_SECOND, NONE, width=8),
        lines("Input wait", "Share of a step.", {run: shares["input"]}, v.SHARE, NONE, v.INPUT_WAIT, width=8),
        lines("Communication", "Share of a step.", {run: shares["communication"]}, v.SHARE, NONE, v.COMMUNICATION,
              width=8),
    ]  # fmt: skip
