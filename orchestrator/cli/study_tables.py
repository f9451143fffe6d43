"""Tables of studies for people: what is planned, and what was measured."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from orchestrator.cli import output
from orchestrator.studies import matrix
from orchestrator.studies.journal import resume_command
from orchestrator.studies.report.number_text import number
from orchestrator.studies.status import Row, Status
from orchestrator.studies.time_and_cost import Plan


def plan(planned: Plan, currency: str) -> None:
    """Print cells, order, time and cost of a study that has not started."""
    shared(planned.shared)
    output.table(("cell", "base case"), [(row.cell, row.base or output.NOTHING) for row in planned.cells])
    output.line()
    output.line("order:")
    for step in planned.order:
        if step.deploy is not None:
            output.line(f"  round {step.round}: deploy {matrix.counted(step.deploy, 'node')}")
        output.line(f"  round {step.round}: {step.cell}")
    most = f", at most {planned.most}" if planned.most > planned.launches else ""
    deploys = f"; {planned.deploys} deploys change the number of nodes" if planned.deploys else ""
    output.line(f"{planned.launches} launches{most}{deploys}")
    _time(planned)
    if planned.cost is not None:
        output.line(f"cost: about {planned.cost:.2f} {currency}, of what has a price in `prices`")


def shared(options: str) -> None:
    """Print the options that all cells have in common, which their titles leave out."""
    if options:
        output.line(f"in every cell: {options}")


def _time(planned: Plan) -> None:
    if planned.seconds is None:
        output.line("time: known after the first round, or once models and data sets like these were trained here")
        return
    unknown = f"{matrix.counted(planned.unknown, 'cell')} that nothing is known of"
    without = [unknown] if planned.unknown else []
    without += ["deploys"] if planned.deploys else []
    left_out = f", without {' and '.join(without)}" if without else ""
    counted = f" for {planned.launches} launches" if planned.most > planned.launches else ""
    limited = ", if launches take their whole time limit" if planned.limited else ""
    output.line(f"time: about {timedelta(seconds=round(planned.seconds))}{counted}{left_out}{limited}")


def results(rows: Sequence[Row]) -> None:
    """Print what each cell measured."""
    output.table(
        ("cell", "launches", "images/s", "ratio", "95 % interval", "to"),
        [
            (row.cell, row.launches, output.shown(row.images_per_second, number),
             output.shown(row.ratio, "{:.3f}".format), _interval(row), row.base or output.NOTHING)
            for row in rows
        ],
    )  # fmt: skip


def _interval(row: Row) -> str:
    return f"{row.low:.3f} to {row.high:.3f}" if row.low is not None and row.high is not None else output.NOTHING


def given_up(problems: Mapping[str, str]) -> None:
    """Print the cells that are not launched any more, and why."""
    for cell, problem in problems.items():
        output.line(f"given up: {cell}: {problem}")


def status(report: Status, directory: Path) -> None:
    """Print what a study has measured so far."""
    by = report.runner or ("the head" if report.queue and report.queue.state == "running" else None)
    ended = "ended, with cells given up" if report.given_up else "complete"
    state = f"run by {by}" if by else ended if report.complete else "not running"
    output.line(f"study {report.name}: {state}, {report.launches} launches, {report.left}")
    shared(report.shared)
    results(report.cells)
    given_up(report.given_up)
    if report.queue:
        output.line(str(report.queue))
    if not report.runner and (report.queue or report.given_up or not report.complete):
        collects = "collects these and " if report.queue else ""
        again = ", and tries the cells again that were given up" if report.given_up else ""
        output.line(f"{resume_command(directory)} {collects}continues it{again}")
