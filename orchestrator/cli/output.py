"""How results look: JSON for machines, tables for people, a run's lines as they come."""

import json
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from orchestrator import prices, progress, runlog
from orchestrator.checks import Health
from orchestrator.cluster import Cluster
from orchestrator.config import Config
from orchestrator.explanation import explain
from orchestrator.prices import Item
from orchestrator.runs import Seen
from orchestrator.schema import Hello, HelloRank, Prepared, Results, Staged
from orchestrator.terraform import Change

NOTHING = "-"  # where there is nothing to tell
PIPE_WIDTH = 10_000  # no line is folded for a program that reads it
console = progress.Terminal(width=None if sys.stdout.isatty() else PIPE_WIDTH)


def as_json(value: Any) -> None:
    print(json.dumps(to_jsonable_python(value), indent=2))


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print :func:`columns`."""
    console.print(columns(headings, rows))


def columns(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """Columns without frames, which a pipe can cut."""
    drawn = Table(*headings, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        drawn.add_row(*(Text(str(cell)) for cell in row))
    return drawn


def shown(value: float | None, form: Callable[[float], str]) -> str:
    """A cell with a number that may be missing."""
    return NOTHING if value is None else form(value)


def line(text: str = "") -> None:
    console.print(text, markup=False)


def stream(pieces: Iterable[bytes], to_stderr: bool = False) -> None:
    """Print a run's log as it comes."""
    target = progress.console if to_stderr else console
    with progress.console.status("waiting for the first rank") as live:
        for shown in runlog.lines(pieces):
            if shown.lasting:
                live.stop()  # it knows nothing of the other stream, which has the same terminal
                target.print(shown.text, markup=False)
                live.update("running")
                live.start()
            else:
                live.update(escape(shown.text))


def runs_table(seen: Iterable[Seen]) -> None:
    rows = [(s.run.id, s.state, s.run.np, f"{datetime.fromtimestamp(s.run.started):%Y-%m-%d %H:%M:%S}") for s in seen]
    table(("run", "state", "ranks", "started"), rows)


def nodes(made: Cluster, health: Health) -> None:
    """Every node with what is wrong with it."""
    table(
        ("node", "role", "address", "slots", "cpus", "gpus", "health"),
        [
            (n, node.role, node.address, node.slots, f"{node.cpus:g}", node.gpus, health.failed.get(n, "ok"))
            for n, node in made.nodes.items()
        ],
    )


def missing(found: Mapping[str, str]) -> None:
    """Nodes that were asked for and are not there."""
    for name, why in found.items():
        line(f"missing: {name}: {why}")


def plan(wanted: Config, changes: Sequence[Change]) -> None:
    """What a deploy would do."""
    line(f"cluster {wanted.name}: {wanted.nodes} nodes with provider {wanted.provider}")
    if changes:
        table(("change", "what", "name"), [(c.action, c.kind, c.name) for c in changes])
    else:
        line("nothing would be made or changed by Terraform")


def bill(items: Sequence[Item], currency: str) -> None:
    """What it costs per hour; a thing without a price is named."""
    rows = [(i.count, i.name, _price(i.each, currency), _price(i.sum, currency)) for i in items]
    if rows:
        line()
        table(("count", "what", "per hour", "together"), rows)
        line(prices.total(items, currency))


def _price(value: float | None, currency: str) -> str:
    return "no price" if value is None else f"{value:.2f} {currency}"


def as_record(seen: Seen) -> dict[str, Any]:
    """A run and its state as one JSON object."""
    return {**seen.run.model_dump(), "state": seen.state, "status": seen.status}


def run(seen: Seen, directory: Path, json: bool) -> None:
    """What a run gave, out of the ``directory`` with what was fetched of it."""
    if found := trained(directory):
        return as_json(found.model_dump() | {"explanation": explain(found)}) if json else _training(found)
    if json:
        return as_json(as_record(seen))
    line(f"run {seen.run.id} {seen.state}: {shlex.join(seen.run.command)} on {seen.run.np} ranks")
    line(f"log and files: {directory}")


def trained(directory: Path) -> Results | None:
    """What a training run left, out of the ``directory`` with what was fetched of it."""
    path = directory / "results.json"
    return Results.model_validate_json(path.read_text()) if path.exists() else None


def _training(found: Results) -> None:
    """A training run's configuration, world and epochs, and what held it up."""
    config, nodes = found.config, len(set(found.world.hosts))
    images = found.effective_batch_size // found.world.size
    after = f", after {found.resumed_from}" if found.resumed_from else ""
    line(f"run {found.run}: {config.model} on {config.dataset}, {found.world.size} ranks on {nodes} nodes{after}")
    line(
        f"{images} images per rank and step, learning rate up to {found.peak_learning_rate:g}, "
        f"{config.precision}, seed {config.seed}, " + ", ".join(f"{k} {v}" for k, v in found.versions.items())
    )
    table(
        ("epoch", "loss", "top-1", "test loss", "test top-1", "test top-5", "images/s", "seconds"),
        [
            (e.epoch, f"{e.train.loss:.4f}", f"{e.train.top1:.2%}", f"{e.test.loss:.4f}", f"{e.test.top1:.2%}",
             f"{e.test.top5:.2%}", f"{e.images_per_second:.0f}", f"{e.seconds:.1f}")
            for e in found.epochs
        ],
    )  # fmt: skip
    if explanation := explain(found):
        line(str(explanation))


def hello(found: Hello) -> None:
    """Who answered, what the allreduce gave, and its cost by message size."""
    table(
        ("rank", "host", "local rank", "allreduce"),
        [(r.rank, r.host, r.local_rank, _proof(r, found)) for r in found.ranks],
    )
    line()
    table(
        ("message", "latency", "bus bandwidth"),
        [
            (_size(s.bytes), f"{s.latency_seconds * 1e3:.2f} ms", f"{s.bus_bandwidth / 1e6:.1f} MB/s")
            for s in found.sizes
        ],
    )


def prepared(found: Prepared) -> None:
    """What shards were made, and what was left out."""
    images = " and ".join(f"{count:,} {split}" for split, count in found.images.items())
    line(f"{images} images in {found.shards} shards, {found.bytes / 1e6:,.1f} MB: {found.directory}")
    line(f"{found.made} shards were made now, in {found.seconds:.1f} s; the others were there and whole")
    for unreadable in found.unreadable:
        line(f"left out: {unreadable}")


def staged(found: Staged) -> None:
    """What every node has now, and what was copied for it."""
    line(f"{found.shards} shards, {found.bytes / 1e6:,.1f} MB, on every node in {found.seconds:.1f} s:")
    for directory in found.directories:
        line(f"  {directory}")
    rows = zip(found.hosts, found.copied, found.read, strict=True)
    table(
        ("node", "copied now", "of it from shared storage"),
        [(host, f"{copied / 1e6:,.1f} MB", f"{read / 1e6:,.1f} MB") for host, copied, read in rows],
    )


def _proof(rank: HelloRank, found: Hello) -> str:
    right = rank.allreduce_sum == found.expected_sum
    return f"{rank.allreduce_sum:g} (right)" if right else f"{rank.allreduce_sum:g} instead of {found.expected_sum:g}"


def _size(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB" if count >= 1 << 10 else f"{count} B"
