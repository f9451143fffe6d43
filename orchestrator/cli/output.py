"""How results look: JSON for machines, tables for people, a run's lines as they come."""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from pydantic_core import to_jsonable_python
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from orchestrator import progress, runlog
from orchestrator.runs import Seen
from orchestrator.schema import Hello, HelloRank, Results

console = Console(highlight=False, soft_wrap=True)


def as_json(value: Any) -> None:
    print(json.dumps(to_jsonable_python(value), indent=2))


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Columns without frames, which a pipe can cut."""
    drawn = Table(*headings, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        drawn.add_row(*(str(cell) for cell in row))
    console.print(drawn)


def line(text: str = "") -> None:
    console.print(text, markup=False)


def stream(pieces: Iterable[bytes], to_stderr: bool = False) -> None:
    """Print a run's log as it comes."""
    target = progress.console if to_stderr else console
    with progress.console.status("waiting for the first rank") as live:
        for shown in runlog.lines(pieces):
            if shown.lasting:
                target.print(shown.text, markup=False)
            else:
                live.update(escape(shown.text))


def runs_table(seen: Iterable[Seen]) -> None:
    rows = [(s.run.id, s.state, s.run.np, f"{datetime.fromtimestamp(s.run.started):%Y-%m-%d %H:%M:%S}") for s in seen]
    table(("run", "state", "ranks", "started"), rows)


def results(found: Results) -> None:
    """A training run's epochs, and its last line in words."""
    config = found.config
    nodes = len(set(found.world.hosts))
    line(f"run {found.run}: {config.model} on {config.dataset}, {found.world.size} ranks on {nodes} nodes")
    table(
        ("epoch", "loss", "top-1", "test loss", "test top-1", "test top-5", "images/s", "seconds"),
        [
            (e.epoch, f"{e.train.loss:.4f}", f"{e.train.top1:.2%}", f"{e.test.loss:.4f}", f"{e.test.top1:.2%}",
             f"{e.test.top5:.2%}", f"{e.images_per_second:.0f}", f"{e.seconds:.1f}")
            for e in found.epochs
        ],
    )  # fmt: skip


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


def _proof(rank: HelloRank, found: Hello) -> str:
    right = rank.allreduce_sum == found.expected_sum
    return f"{rank.allreduce_sum:g} (right)" if right else f"{rank.allreduce_sum:g} instead of {found.expected_sum:g}"


def _size(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB" if count >= 1 << 10 else f"{count} B"
