"""Formats of a report."""

from collections.abc import Callable, Mapping, Sequence

from orchestrator.studies.report import markup, page, spreadsheet
from orchestrator.studies.report.report import Report


def _markdown(report: Report) -> str:
    return markup.markdown(report.title, report.facts, report.tables, _described(report))


def _latex(report: Report) -> str:
    return markup.latex(report.title, report.facts, report.tables, _described(report))


def _described(report: Report) -> Sequence[str]:
    return [report.description, *report.notes] if report.description else report.notes


FORMATS: Mapping[str, Callable[[Report], str]] = {
    "html": page.html,
    "csv": lambda report: spreadsheet.cells(report.summaries),
    "launches": lambda report: spreadsheet.launches(report.study.launches),
    "markdown": _markdown,
    "latex": _latex,
}
