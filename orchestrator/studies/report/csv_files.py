"""CSV files of a study: one row per cell, and one row per launch. Pure."""

import csv
import io
import math
import shlex
from collections.abc import Iterable, Sequence

from orchestrator.schema.csv_cells import no_formula
from orchestrator.schema.studies import Cell, Launch
from orchestrator.studies.confidence_intervals import Estimate
from orchestrator.studies.report import number_text
from orchestrator.studies.report.cells import Summary

CELL = ("key", "engine", "model", "dataset", "batch", "nodes", "ranks", "options")
ESTIMATES = ("images", "speed_up", "efficiency", "ratio", "top1", "to_accuracy", "seconds", "to_end", "epochs")
NAMES = {"images": "images_per_second", "ratio": "ratio_to_base", "to_accuracy": "seconds_to_accuracy",
         "seconds": "seconds_per_epoch", "to_end": "seconds_to_end"}  # fmt: skip
PARTS = ("input_seconds", "compute_seconds", "communication_seconds")


def cells(summaries: Iterable[Summary]) -> str:
    """Return a table with a row for each cell: every estimate as value, low and high end, and number of launches.

    An infinite time to an accuracy is "not reached".
    """
    columns = [f"{NAMES.get(name, name)}{end}" for name in ESTIMATES for end in ("", "_low", "_high", "_n")]
    rows = [
        [
            *_cell(summary.cell),
            *(part for name in ESTIMATES for part in _estimate(getattr(summary, name))),
            *(summary.parts or ("", "", "")),
            summary.busy,
            summary.results[0].config.threads if summary.results else "",
            summary.results[0].config.precision if summary.results else "",
            summary.test_samples or "",
            summary.reached if summary.to_accuracy else "",
        ]
        for summary in summaries
    ]
    return _written([*CELL, *columns, *PARTS, "busy", "threads", "precision", "test_samples", "reached_accuracy"], rows)


def launches(measured: Iterable[Launch]) -> str:
    """Return a table with a row for each launch, in the order of their ends."""
    rows = [
        [
            *_cell(launch.cell),
            launch.round + 1,
            int(launch.again),
            launch.run or "",
            launch.started,
            launch.seconds,
            "" if launch.step_seconds is None else launch.step_seconds,
            "" if launch.images_per_second is None else launch.images_per_second,
            launch.busy,
            shlex.join(launch.command),
            launch.problem or "",
        ]
        for launch in measured
    ]
    columns = ("round", "again", "run", "started", "seconds", "step_seconds", "images_per_second", "busy", "command")
    return _written([*CELL, *columns, "problem"], rows)


def _cell(cell: Cell) -> list[object]:
    options = " ".join(f"{name}={value}" for name, value in cell.options.items())
    return [cell.key, cell.engine, cell.model, cell.dataset, cell.batch or "", cell.nodes or "", cell.ranks, options]


def _estimate(value: Estimate | None) -> list[object]:
    if value is None:
        return [""] * 3 + [0]
    ends = value.interval or ("", "")
    return [number_text.NOT_REACHED if part == math.inf else part for part in (value.value, *ends)] + [value.n]


def _written(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(headings)
    table.writerows([_safe(value) for value in row] for row in rows)
    return text.getvalue()


def _safe(value: object) -> object:
    """Return text that no spreadsheet takes for a formula, and that is one line."""
    if not isinstance(value, str):
        return value
    return no_formula(number_text.plain(value))
