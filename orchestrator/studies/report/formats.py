"""Formats of a report."""

from collections.abc import Callable, Mapping, Sequence

from orchestrator.studies.report import csv_files, html_page, markdown_and_latex
from orchestrator.studies.report.content import Report


def _markdown(report: Report) -> str:
    return markdown_and_latex.markdown(report.title, report.facts, report.tables, _described(report))


def _latex(report: Report) -> str:
    name = report.study.about.name
    return markdown_and_latex.latex(report.title, report.facts, report.tables, _described(report), name)


def _described(report: Report) -> Sequence[str]:
    return [report.description, *report.notes] if report.description else report.notes


FORMATS: Mapping[str, Callable[[Report], str]] = {
    "html": html_page.html,
    "csv": lambda report: csv_files.cells(report.summaries),
    "launches": lambda report: csv_files.launches(report.study.launches),
    "markdown": _markdown,
    "latex": _latex,
}
