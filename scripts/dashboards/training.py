"""*Training run*: whether it waits for input, for the network or for one slow rank, and when it will finish."""

from collections.abc import Sequence

from grafana_foundation_sdk.builders.dashboard import AnnotationQuery
from grafana_foundation_sdk.models import dashboard

from scripts.dashboards import navigation
from scripts.dashboards import units_and_queries as v
from scripts.dashboards.common_parts import Section, change, changed, frame
from scripts.dashboards.panels import Panel, lines, spanned, stacked, tile, verdict
from scripts.dashboards.tables import Column, Rows, listing

NONE = "no run in this range"
MARKED = ("Images per second", "Where a step's time goes", "Loss", "Top-1")  # they mark epochs and checkpoints
NO_BASELINE = "no such one-node run"
NO_GPUS = "no GPUs on its nodes"
RUN = 'run="$run"'
RANK = "rank {{rank}} on {{node}}"


def ours(name: str, labels: str = RUN) -> str:
    """Return a metric of the trainer, for this run."""
    return f"orchestrator_training_{name}{{{labels}}}"


def rule(name: str, kind: str = "run") -> str:
    """Return a recorded series, for this run."""
    return f"{kind}:orchestrator_training_{name}{{{RUN}}}"


def of_step(part: str) -> str:
    """Return a query for the seconds of a step that one part takes, the mean over all ranks."""
    spent, steps = ours("step_part_seconds_sum", f'{RUN}, part="{part}"'), ours("step_seconds_count")
    return f"sum(rate({spent}[2m])) / (sum(rate({steps}[2m])) > 0) and {GOING}"


def on_its_nodes(series: str) -> str:
    """Restrict `series` to the nodes of the run, while it is on them."""
    return f"{series} and on (node) {ours('world_size')}"


PROGRESS, CHECKPOINTS = ours("progress_ratio"), ours("checkpoint_seconds_count")
IMAGES, BY_RANK = rule("images:rate30s"), rule("images:rate30s", "rank")
STEPS, STEPS_BY_RANK = rule("step_images:rate2m"), rule("step_images:rate2m", "rank")  # not 0 during evaluations
INPUT, COMMUNICATION = rule("input:ratio"), rule("communication:ratio")
STRAGGLER, OWN = rule("straggler:ratio", "rank"), rule("own_seconds:rate2m", "rank")
EFFICIENCY = rule("scaling_efficiency:ratio")
# From the pace of the last minutes; -1 until there is one, 0 once the run has ended and no scrape just failed.
PACE = f"max(deriv({PROGRESS}[10m])) > 0"
GOING = f"max(last_over_time({PROGRESS}[15s]))"
LEFT = f"(1 - {GOING}) / ({PACE}) or {GOING} * 0 - 1 or max({v.last(PROGRESS)}) * 0"
# Not timestamp() of the series itself: a subquery of a long range has steps that are longer than many runs.
ELAPSED = f"max({v.last(rule('progress:timestamp'))}) - min({v.last(ours('start_time_seconds'))})"


def build() -> dashboard.Dashboard:
    """Build the dashboard."""
    sections = [
        Section("", [*_verdict(), *_state()]),
        Section("Speed", _speed()),
        Section("Learning", _learning()),
        Section("Ranks", [_ranks()]),
        Section("Nodes of the run", _nodes()),
    ]
    says = "Whether a run waits for input, for the network or for one slow rank, and when it will finish."
    return frame("orchestrator-training", says, [navigation.cluster(), navigation.run()], sections, _marks(), MARKED)


def _verdict() -> Sequence[Panel]:
    input_wait, communication = v.last(INPUT), v.last(COMMUNICATION)
    slowest = f"topk(1, {v.last(STRAGGLER)})"
    pace = {"last": v.last(STEPS), "mean": v.pace(RUN)}
    progress = {"": f"max({v.last(PROGRESS)})"}
    return [
        verdict("Input wait", "Share of a step spent waiting for images.", input_wait, v.SHARE, v.INPUT_WAIT, NONE),
        verdict("Communication", "Share of a step spent exchanging gradients.", communication, v.SHARE,
                v.COMMUNICATION, NONE),
        verdict("Slowest rank", "Its own time per step, against the median of all ranks.", slowest, v.TIMES,
                v.STRAGGLER, NONE, (RANK, "the median")),
        tile("Images per second", "All ranks together, without evaluations.", pace, v.COUNT, NONE).decimals(0),
        tile("Progress", "Steps done, of all planned.", progress, v.SHARE, NONE, v.PROGRESS),
        tile("Time left", "At the pace of the last ten minutes.", {"": LEFT}, v.DURATION, NONE, v.LEFT, worded=True),
    ]  # fmt: skip


def _state() -> Sequence[Panel]:
    loss, top1 = (f"avg by (split) ({v.last(ours(name))})" for name in ("loss", "top1_ratio"))
    epochs = {"now": f"max({v.last(ours('epoch'))})", "of": f"max({v.last(ours('epochs'))})"}
    checkpoint = " / ".join(f"sum({v.last(ours(f'checkpoint_seconds_{part}'))})" for part in ("sum", "count"))
    first, again = (f"max({v.last(ours(name))})" for name in ("first_step_seconds", "restarts_total"))
    panels = [
        tile("Loss", "Mean, latest value, in nats.", {"{{split}}": loss}, v.COUNT, NONE),
        tile("Top-1", "Share of correctly classified images, latest value.", {"{{split}}": top1}, v.SHARE, NONE),
        tile("Epoch", "The current epoch.", epochs, v.COUNT, NONE),
        tile("Ranks", "World size.", {"": f"max({v.last(ours('world_size'))})"}, v.COUNT, NONE),
        tile("Efficiency", "Images per second, against one node's best in 30 days times the nodes. Only runs of the"
             " same model, data, image size, precision, batch per rank and ranks per node count.",
             {"": v.last(EFFICIENCY)}, v.SHARE, NO_BASELINE, v.EFFICIENCY),
        tile("Running for", "Since training began.", {"": ELAPSED}, v.DURATION, NONE),
        tile("Restarts", "Number of restarts of ranks.", {"": again}, v.COUNT, NONE, v.RESTARTS),
        tile("Set-up", "The first step, which traces, and a checkpoint's mean.",
             {"first step": first, "checkpoint": f"({checkpoint}) > 0"}, v.SECONDS, NONE),
    ]  # fmt: skip
    return spanned(panels, (3, 4, 3, 2, 3, 3, 3, 3))


def _speed() -> list[Panel]:
    parts = {part: of_step(part) for part in v.PARTS}
    split = lines("Where a step's time goes", "Mean over all ranks.", parts, v.SECONDS, NONE)
    return [
        lines("Images per second", "All ranks together.", {"all ranks": IMAGES}, v.IMAGES_PER_SECOND, NONE),
        stacked(split, v.PARTS),
        lines("Images per second and rank", "Each rank.", {RANK: BY_RANK}, v.IMAGES_PER_SECOND, NONE),
        lines(
            "Own time per step", "Input and compute: a slow rank makes the others wait.", {RANK: OWN}, v.SECONDS, NONE
        ),
    ]


def _learning() -> list[Panel]:
    by_split = {name: {"{{split}}": f"avg by (split) ({ours(name)})"} for name in ("loss", "top1_ratio")}
    rate = {"learning rate": f"max({ours('learning_rate')})"}
    return [
        lines("Loss", "Mean over the ranks.", by_split["loss"], v.NATS, NONE, width=8),
        lines("Top-1", "Share of correctly classified images.", by_split["top1_ratio"], v.SHARE, NONE, width=8),
        lines("Learning rate", "Of the latest step.", rate, v.COUNT, NONE, width=8),
    ]


def _ranks() -> Panel:
    def by_rank(query: str) -> str:
        return f"max by (rank, node) ({query})"

    columns = [
        Column("Against the median", by_rank(v.last(STRAGGLER)), v.TIMES, v.STRAGGLER, decimals=2),
        Column("Mean against the median", by_rank(v.average(STRAGGLER)), v.TIMES, v.STRAGGLER, decimals=2),
        Column("Own time per step", by_rank(v.last(OWN)), v.SECONDS),
        Column("Images per second", by_rank(v.last(STEPS_BY_RANK)), v.IMAGES_PER_SECOND),
        Column("Batch", by_rank(v.last(ours("batch_size"))), v.COUNT),
        Column("Restarts", by_rank(v.last(ours("restarts_total"))), v.COUNT, v.RESTARTS),
    ]
    link = "/d/orchestrator-cluster?var-node=${__value.raw}&${__url_time_range}"
    rows = Rows({"rank": "Rank", "node": "Node"}, {"node": link})
    return listing("Stragglers", "Slowest first.", rows, columns, NONE, sort="Against the median")


def _nodes() -> list[Panel]:
    cpu, gpu = on_its_nodes("node:node_cpu:ratio"), on_its_nodes("avg by (node) (DCGM_FI_DEV_GPU_UTIL)")
    both = {
        "{{node}} in": f"({on_its_nodes('node:node_network_receive_bytes:rate30s')}) * 8",
        "{{node}} out": f"({on_its_nodes('node:node_network_transmit_bytes:rate30s')}) * 8",
    }
    return [
        lines("CPU", "Share of all cores in use.", {"{{node}}": cpu}, v.SHARE, NONE, width=8),
        lines("GPU", "Mean utilisation of a node's GPUs.", {"{{node}}": gpu}, v.PERCENT, NO_GPUS, width=8),
        lines("Network", "Traffic of the training interface.", both, v.BITS_PER_SECOND, NONE, width=8),
    ]


def _marks() -> list[AnnotationQuery]:
    first_rank = f'{RUN}, rank="0"'
    epoch = f'count_values("epoch", {changed(ours("epoch", first_rank))})'
    written = f'count_values("checkpoint", ({changed(CHECKPOINTS)}) > 0)'
    return [
        change("Epochs", "blue", epoch, "epoch {{epoch}} begins"),
        change("Checkpoints", "purple", written, "checkpoint {{checkpoint}} written"),
    ]
