"""Report of a study as one page for a browser, which needs no other file, no script and no network."""

import base64
import shlex
from collections.abc import Sequence

from orchestrator.plot import page
from orchestrator.plot.page import text
from orchestrator.studies.report import cells, csv_files, measurement_conditions, tables
from orchestrator.studies.report.cells import Summary
from orchestrator.studies.report.content import Report
from orchestrator.studies.report.plots import draw
from orchestrator.studies.report.tables import Table

METHOD = """<section aria-labelledby="method"><h2 id="method">How the numbers are made</h2>
<p>The unit is one launch of a cell; within it the median of the steps after the first. Cells were launched in rounds,
every other round in reverse order. Ratios, speed-up and efficiency compare launches of the same round: they are medians
of paired ratios, never ratios of means. Median: interval between order statistics. Ratio: interval by the bootstrap
distribution of the median of the logarithms, with percentiles for small samples. Both hold the true value at least 95 %
of the time. A study with <code>width</code> ends when the intervals of its ratios are narrow; in simulations these hold
the ratio 92 to 97 % of the time. Fewer than 6 launches have no interval. Efficiency is the speed-up divided by the
number of ranks.</p>
<p>Sources: T. Hoefler and R. Belli, Scientific Benchmarking of Parallel Computing Systems, SC'15. B. Efron, Bootstrap
Methods, Annals of Statistics 7 (1979). T. C. Hesterberg, What Teachers Should Know About the Bootstrap, The American
Statistician 69 (2015).</p>
<p>A published number contradicts another one if no numbers that would be printed so agree; a number is as exact as its
digits, or as those that the table usually prints.</p></section>"""


def html(report: Report) -> str:
    """Return the page."""
    groups = tables.groups(report.summaries)
    base, target = cells.base_name(report.study), report.study.about.target_top1
    drawn, failures = draw(groups, base), tables.failures(report.study)
    sections = [
        page.section(
            f"group-{number}",
            str(group),
            page.figures(drawn[group]),
            _table(tables.speed(group, members, base)),
            _table(tables.time(group, members, target)),
        )
        for number, (group, members) in enumerate(groups.items(), 1)
    ]
    failed = page.section("failures", failures.title, _table(failures)) if failures.rows else ""
    header = [page.lead(report.description), _notes(report), page.facts(report.facts)]
    return page.document(report.title, header, [*sections, _published(report), failed, _repeat(report), METHOD])


def _notes(report: Report) -> str:
    """Return whether the A/A pair holds 1, and what a reader must know is missing or wrong."""
    held = [measurement_conditions.aa_holds(summary) for summary in report.summaries if summary.again]
    kind = "warn" if not held or not all(held) else "good"
    first = f'<p class="note {kind}">{text(measurement_conditions.aa_sentence(report.summaries))}</p>'
    return first + "".join(f'<p class="note warn">{text(note)}</p>' for note in report.remarks)


def _published(report: Report) -> str:
    """Return published and measured numbers, below the contradictions of the published ones."""
    table = tables.published(report.comparisons)
    if not table.rows:
        return ""
    flags = "".join(
        f'<p class="note warn">Contradiction ({text(contradiction.source)}): {text(contradiction.message)}.</p>'
        for contradiction in report.contradictions
    )
    shrunk = measurement_conditions.shrunk(report.study)
    note = f"<p>Other hardware, and what was shrunk ({text(shrunk)}), may explain ratios far from 1.</p>"
    return page.section("published", "Published numbers", flags, note, _table(table))


def _repeat(report: Report) -> str:
    """Return every command, what ran where, and the data as files."""
    commands = [_commands(summary) for summary in report.summaries]
    sheets = {
        "cells.csv": csv_files.cells(report.summaries),
        "launches.csv": csv_files.launches(report.study.launches),
    }
    links = ", ".join(_download(name, sheet) for name, sheet in sheets.items())
    files = f'<p class="screen">The numbers as files: {links}.</p>'
    return page.section("repeat", "How to repeat it", files, *commands)


def _commands(summary: Summary) -> str:
    """Return the commands of a cell's launches, equal ones once."""
    lines = dict.fromkeys(
        shlex.join(launch.command) for launch in [*summary.launches, *summary.again] if launch.command
    )
    shown = "\n".join(text(line) for line in lines) or "not recorded"
    runs = ", ".join(text(launch.run) for launch in [*summary.launches, *summary.again] if launch.run)
    name = text(measurement_conditions.cell_name(summary))
    return f"<details><summary>{name}</summary><pre>{shown}</pre><p>Runs: {runs}</p></details>"


def _download(name: str, sheet: str) -> str:
    content = base64.b64encode(sheet.encode()).decode()
    return f'<a download="{name}" href="data:text/csv;base64,{content}">{name}</a>'


def _table(table: Table) -> str:
    """Return a table that scrolls within itself if the page is narrow; its first column stays."""
    heads = "".join(f'<th scope="col"{_kind(table, i)}>{text(name)}</th>' for i, name in enumerate(table.headings))
    rows = "".join(_row(table, row, before) for row, before in zip(table.rows, [None, *table.rows], strict=False))
    note = f'<p class="under">{text(table.note)}</p>' if table.note else ""
    title = text(table.title)
    return (
        f'<div class="scroll" role="region" aria-label="{title}" tabindex="0"><table>'
        f"<caption><span>{title}</span></caption>"
        f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>{note}"
    )


def _row(table: Table, row: Sequence[str], before: Sequence[str] | None) -> str:
    """Return a row; a new engine has a line above it."""
    cells_of = [
        f'<th scope="row"{_kind(table, i)}>{text(cell)}</th>' if i < 1 else f"<td{_kind(table, i)}>{text(cell)}</td>"
        for i, cell in enumerate(row)
    ]
    begins = ' class="next"' if before is not None and before[0] != row[0] and table.labels == 2 else ""
    return f"<tr{begins}>{''.join(cells_of)}</tr>"


def _kind(table: Table, column: int) -> str:
    if table.headings[column] == "problem":
        return ' class="text long"'
    return ' class="text"' if table.is_text(column) else ""
