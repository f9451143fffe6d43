"""Render monitoring data as tables: the current nodes, GPUs and runs, and a summary of a run."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from orchestrator.cli import output
from orchestrator.cli.output import NOTHING, shown
from orchestrator.monitoring.current_state import Gpu, Node, RunningRun, Top
from orchestrator.monitoring.series_summary import PARTS, Summary, shares

COLUMNS = ("run", "ranks", "images/s", "mean", "loss", "test loss", "epoch", "left", *PARTS, "slowest")
SPEED = ("run", "ranks", "images/s", "mean", "epoch", "left")
LEARNING = ("run", "loss", "test loss", *PARTS, "slowest")


def tables(cluster: str, now: Top) -> RenderableType:
    """Return the tables of `orchestrator top`."""
    gpus = [(node.node, gpu) for node in now.nodes for gpu in node.gpus]
    head = Text(f"cluster {cluster}: {len(now.nodes)} nodes, {datetime.fromtimestamp(now.time):%H:%M:%S}")
    runs = _runs(now.runs) if now.runs else [Text("no run within the last hour")]
    parts = [head, *runs, _nodes(now.nodes), *([_gpus(gpus)] if gpus else [])]  # a short terminal cuts the end
    return Group(*(line for part in parts for line in (part, Text())))


def _nodes(nodes: list[Node]) -> RenderableType:
    return output.columns(
        ("node", "up", "cpu", "memory", "in", "out", "of the link", "gpu"),
        [
            (n.node, "yes" if n.up else "NO", _share(n.cpu), _share(n.memory), _rate(n.receive_bytes_per_second),
             _rate(n.transmit_bytes_per_second), _share(n.network), _busy(n.gpus))
            for n in nodes
        ],
    )  # fmt: skip


def _busy(gpus: list[Gpu]) -> str:
    measured = [gpu.utilisation for gpu in gpus if gpu.utilisation is not None]
    return f"{sum(measured) / len(measured):.0%}" if measured else NOTHING


def _gpus(gpus: list[tuple[str, Gpu]]) -> RenderableType:
    return output.columns(
        ("node", "gpu", "model", "busy", "memory", "power", "temperature"),
        [
            (node, g.gpu, g.model or NOTHING, _share(g.utilisation), _memory(g), _whole(g.power_watts, " W"),
             _whole(g.temperature_celsius, " °C"))
            for node, g in gpus
        ],
    )  # fmt: skip


def _memory(gpu: Gpu) -> str:
    used, whole = (shown(b, lambda b: f"{b / (1 << 30):.1f}") for b in (gpu.memory_used_bytes, gpu.memory_bytes))
    return f"{used} of {whole} GiB"


def _runs(runs: list[RunningRun]) -> list[RenderableType]:
    """Return one table of the runs, or two if the terminal is narrower than one."""
    whole = _columns_of_runs(runs, COLUMNS)
    if output.width(whole) <= output.console.width:
        return [whole]
    return [_columns_of_runs(runs, names) for names in (SPEED, LEARNING)]


def _columns_of_runs(runs: list[RunningRun], names: Sequence[str]) -> Table:
    rows = [_row(run) for run in runs]
    return output.columns(names, [[row[name] for name in names] for row in rows])


def _row(run: RunningRun) -> dict[str, object]:
    return {
        "run": run.run,
        "ranks": run.ranks,
        "images/s": _whole(run.images_per_second),
        "mean": _whole(run.images_per_second_mean),
        "loss": _loss(run.loss["train"]),
        "test loss": _loss(run.loss["test"]),
        "epoch": f"{run.epoch or NOTHING}/{run.epochs or NOTHING}",
        "left": _remaining_time(run),
        **{part: _share(share) for part, share in (run.split if run.running else shares(run.split_seconds)).items()},
        "slowest": _slowest(run),
    }


def _remaining_time(run: RunningRun) -> str:
    return shown(run.eta_seconds, lambda s: str(timedelta(seconds=round(s)))) if run.running else "ended"


def _slowest(run: RunningRun) -> str:
    return f"rank {run.slowest.rank} ({run.slowest.ratio:.2f}x)" if run.slowest else NOTHING


def run(training: Summary) -> None:
    """Print the summary of a run, then its ranks."""
    ranks = output.ranks_on_nodes(training.ranks, len(training.nodes))
    output.line(f"run {training.run}: {training.model} on {training.dataset}, {ranks}")
    split = ", ".join(f"{part} {_share(share)}" for part, share in shares(training.split_seconds).items())
    rows = {
        "images/s": _whole(training.images_per_second),
        "images": training.images,
        "epochs": f"{training.epoch or NOTHING} of {training.epochs or NOTHING}",
        "step": f"{_milliseconds(training.step_seconds)}: {split}",
        "first step": _milliseconds(training.first_step_seconds),
        "loss": f"train {_loss(training.loss['train'])}, test {_loss(training.loss['test'])}",
        "top-1": f"train {_percent(training.top1['train'])}, test {_percent(training.top1['test'])}",
        "given to allreduce": shown(training.reduced_bytes, lambda b: f"{b / 1e6:.1f} MB"),
        "checkpoint": _milliseconds(training.checkpoint_seconds),
        "restarts": training.restarts,
    }
    output.table(("what", "value"), [(what, NOTHING if value is None else value) for what, value in rows.items()])
    output.line()
    output.table(
        ("rank", "node", "images/s", "step", *PARTS),
        [
            (r.rank, r.node or NOTHING, _whole(r.images_per_second), _milliseconds(r.step_seconds),
             *(_milliseconds(r.split_seconds[part]) for part in PARTS))
            for r in training.per_rank
        ],
    )  # fmt: skip


def _whole(value: float | None, unit: str = "") -> str:
    return shown(value, lambda number: f"{number:.0f}{unit}")


def _share(value: float | None) -> str:
    return shown(value, "{:.0%}".format)


def _percent(value: float | None) -> str:
    return shown(value, "{:.2%}".format)


def _loss(value: float | None) -> str:
    return shown(value, "{:.4f}".format)


def _rate(value: float | None) -> str:
    return shown(value, lambda b: f"{b / 1e6:.1f} MB/s" if b >= 1e5 else f"{b / 1e3:.1f} kB/s")


def _milliseconds(value: float | None) -> str:
    return shown(value, lambda s: f"{s * 1e3:.1f} ms")
