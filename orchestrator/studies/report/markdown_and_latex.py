"""Tables in Markdown and LaTeX, with the characters escaped that either would read as markup. Pure."""

import re
from collections.abc import Mapping, Sequence

from orchestrator.studies.report.tables import Table

MARKDOWN = re.compile(r"([\\`*_{}<>#|~$]|\](?=[(\[:]))")
LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
         "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "`": r"\textasciigrave{}",
         "'": r"\textquotesingle{}", "≤": r"\ensuremath{\leq}", "≥": r"\ensuremath{\geq}",
         **{sign: f"\\{sign}" for sign in "&%$#_{}"}}  # fmt: skip
NO_LABEL = re.compile(r"[^A-Za-z0-9-]+")
DASHES = re.compile(r"-(?=-)")  # LaTeX joins them: "--steps" would have one dash
OPTIONAL = ("[", "*")  # at the beginning of a row, LaTeX takes them for an argument of the row before
LONG = ("problem", "source")  # headings of columns whose text may need several lines
# As wide as the text at most, whatever the class of the document.
FITTED = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"


def markdown(title: str, facts: Mapping[str, str], tables: Sequence[Table], notes: Sequence[str]) -> str:
    """Return a section that can be pasted into a page: facts as a list, notes as paragraphs, then the tables."""
    lines = [f"## {_markdown(title)}", ""]
    lines += [f"- {_markdown(name)}: {_markdown(text)}" for name, text in facts.items()]
    for note in notes:
        lines += ["", _markdown(note)]
    for table in tables:
        lines += ["", f"### {_markdown(table.title)}", "", *_markdown_rows(table)]
        lines += ["", _markdown(table.note)] if table.note else []
    return "\n".join(lines) + "\n"


def latex(
    title: str, facts: Mapping[str, str], tables: Sequence[Table], notes: Sequence[str], name: str = "study"
) -> str:
    """Return tables for a paper with the packages booktabs and graphicx; facts and notes are comments above them.

    Args:
        title: Title of the tables.
        facts: Facts by name.
        tables: The tables.
        notes: Sentences that a reader must not miss.
        name: Beginning of the tables' labels, after "tab:"; letters, digits and dashes of it are used.

    Returns:
        The file.
    """
    label = NO_LABEL.sub("-", name).strip("-") or "study"
    lines = [f"% {title}", *(f"% {name}: {text}" for name, text in facts.items()), *(f"% {note}" for note in notes)]
    lines += [r"% needs \usepackage{booktabs,graphicx}"]
    for number, table in enumerate(tables, 1):
        lines += ["", *_latex_table(table, f"{label}-{number}")]
    return "\n".join(lines) + "\n"


def _markdown(text: str) -> str:
    return MARKDOWN.sub(r"\\\1", text)


def _markdown_rows(table: Table) -> list[str]:
    rules = ["---" if table.is_text(column) else "---:" for column in range(len(table.headings))]
    rows = [[_markdown(cell) for cell in row] for row in (table.headings, *table.rows)]
    return [f"| {' | '.join(row)} |" for row in (rows[0], rules, *rows[1:])]


def _latex_table(table: Table, label: str) -> list[str]:
    columns = "".join(_latex_column(table, column) for column in range(len(table.headings)))
    rows = [_latex_row(row) for row in (table.headings, *table.rows)]
    caption = f"{table.title}. {table.note}".strip(" .") + "."
    return [
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{_latex(caption)}}}",
        rf"  \label{{tab:{label}}}",
        f"  {FITTED}",
        rf"  \begin{{tabular}}{{{columns}}}",
        r"    \toprule",
        f"    {rows[0]}",
        r"    \midrule",
        *(f"    {row}" for row in rows[1:]),
        r"    \bottomrule",
        r"  \end{tabular}}",
        r"\end{table}",
    ]


def _latex_column(table: Table, column: int) -> str:
    if table.headings[column] in LONG:
        return r"p{0.5\linewidth}"
    return "l" if table.is_text(column) else "r"


def _latex_row(row: Sequence[str]) -> str:
    words = " & ".join(_latex(cell) for cell in row) + r" \\"
    return f"{{}}{words}" if words.startswith(OPTIONAL) else words


def _latex(text: str) -> str:
    escaped = "".join(LATEX.get(sign, sign) for sign in text)
    return DASHES.sub("-{}", escaped)
