"""Tables in Markdown and LaTeX, with the characters escaped that either would read as markup. Pure."""

import re
from collections.abc import Mapping, Sequence

from orchestrator.studies.report.tables import Table

MARKDOWN = re.compile(r"([\\`*_{}<>#|~$]|\](?=[(\[:]))")
LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
         "<": r"\textless{}", ">": r"\textgreater{}", **{sign: f"\\{sign}" for sign in "&%$#_{}"}}  # fmt: skip


def markdown(title: str, facts: Mapping[str, str], tables: Sequence[Table], notes: Sequence[str]) -> str:
    """Return a section that can be pasted into a page: facts as a list, notes as paragraphs, then the tables."""
    lines = [f"## {_markdown(title)}", ""]
    lines += [f"- {name}: {_markdown(text)}" for name, text in facts.items()]
    for note in notes:
        lines += ["", _markdown(note)]
    for table in tables:
        lines += ["", f"### {_markdown(table.title)}", "", *_markdown_rows(table)]
        lines += ["", _markdown(table.note)] if table.note else []
    return "\n".join(lines) + "\n"


def latex(title: str, facts: Mapping[str, str], tables: Sequence[Table], notes: Sequence[str]) -> str:
    """Return tables for a paper that uses the package booktabs; facts and notes are comments above them."""
    lines = [f"% {title}", *(f"% {name}: {text}" for name, text in facts.items()), *(f"% {note}" for note in notes)]
    lines += [r"% needs \usepackage{booktabs}"]
    for number, table in enumerate(tables, 1):
        lines += ["", *_latex_table(table, number)]
    return "\n".join(lines) + "\n"


def _markdown(text: str) -> str:
    return MARKDOWN.sub(r"\\\1", text)


def _markdown_rows(table: Table) -> list[str]:
    rules = ["---" if table.is_text(column) else "---:" for column in range(len(table.headings))]
    rows = [[_markdown(cell) for cell in row] for row in (table.headings, *table.rows)]
    return [f"| {' | '.join(row)} |" for row in (rows[0], rules, *rows[1:])]


def _latex_table(table: Table, number: int) -> list[str]:
    columns = "".join("l" if table.is_text(column) else "r" for column in range(len(table.headings)))
    rows = [" & ".join(_latex(cell) for cell in row) + r" \\" for row in (table.headings, *table.rows)]
    caption = f"{table.title}. {table.note}".strip(" .") + "."
    return [
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{_latex(caption)}}}",
        rf"  \label{{tab:study-{number}}}",
        rf"  \begin{{tabular}}{{{columns}}}",
        r"    \toprule",
        f"    {rows[0]}",
        r"    \midrule",
        *(f"    {row}" for row in rows[1:]),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]


def _latex(text: str) -> str:
    return "".join(LATEX.get(sign, sign) for sign in text)
