"""Page for a browser: one file for light and dark screens, telephones and paper, without script and network."""

from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import NamedTuple

from orchestrator import progress

STYLE = Path(__file__).with_name("page.css")
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<header>
<h1>{title}</h1>
{header}
</header>
<main>
{main}
</main>
</body>
</html>
"""


class Plot(NamedTuple):
    """A plot of a page with its caption, "" for none, and legend; ``svg`` and ``legend`` are HTML, the others text."""

    title: str
    caption: str
    svg: str
    legend: str


def document(title: object, header: Iterable[str], main: Iterable[str]) -> str:
    """Return the page; its title is text, all else is HTML."""
    return PAGE.format(title=text(title), style=STYLE.read_text(), header="\n".join(header), main="\n".join(main))


def section(name: str, title: str, *parts: str) -> str:
    """Return a section of a page; ``name`` is the id of its heading."""
    return f'<section aria-labelledby="{name}"><h2 id="{name}">{text(title)}</h2>{"".join(parts)}</section>'


def lead(words: str) -> str:
    """Return the line below the title; nothing without words."""
    return f'<p class="lead">{text(words)}</p>' if words else ""


def facts(values: Mapping[str, str]) -> str:
    """Return facts by name as a list."""
    rows = "".join(f"<dt>{text(name)}</dt><dd>{text(value)}</dd>" for name, value in values.items())
    return f"<dl>{rows}</dl>"


def figures(plots: Iterable[Plot]) -> str:
    """Return plots side by side, as many as the window has room for."""
    drawn = "".join(
        f"<figure><h4>{text(plot.title)}</h4>{plot.legend}{plot.svg}{_caption(plot)}</figure>" for plot in plots
    )
    return f'<div class="figures">{drawn}</div>' if drawn else ""


def _caption(plot: Plot) -> str:
    return f"<figcaption>{text(plot.caption)}</figcaption>" if plot.caption else ""


def text(value: object) -> str:
    """Return one line as HTML: what a file says is never markup."""
    return escape(" ".join(progress.plain(str(value)).split()))
