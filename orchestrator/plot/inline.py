"""Drawings within a page: SVG that takes the page's colours and font, so it is readable on light and dark ground."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any

from orchestrator import plot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = "#222222"  # becomes the colour of the page's text
# Name of the page's CSS variable by the colour that a drawing is made with.
VARIABLES = {plot.BLUE: "blue", plot.VERMILION: "vermilion", plot.ORANGE: "orange", plot.SKY: "sky",
             plot.PURPLE: "purple", plot.GREEN: "green", plot.YELLOW: "yellow"}  # fmt: skip
SERIES = (plot.BLUE, plot.VERMILION, plot.GREEN, plot.PURPLE, plot.ORANGE, plot.SKY, plot.YELLOW, INK)
MARKERS = "os^DvPX*"
FONT_SIZE = 9.0  # points; a drawing of 4.6 inches is about as wide as the page of a telephone
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "orchestrator",
    "text.parse_math": False,  # names are no formulas
    "font.size": FONT_SIZE,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": INK,
    "grid.alpha": 0.18,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
}


@contextmanager
def drawing() -> Iterator[None]:
    """Draw within a page's style; :func:`svg` must be called inside too."""
    from matplotlib import rc_context  # noqa: PLC0415  takes a second, and only pictures need it

    with rc_context(STYLE):
        yield


def svg(figure: "Figure", name: str, title: str, description: str) -> str:
    """Return the drawing as an element of a page.

    Args:
        figure: The drawing, made within :func:`drawing`.
        name: Prefix of the ids in it, different for each drawing of a page.
        title: Its title, for people who do not see it.
        description: What it shows, for the same people.

    Returns:
        An ``svg`` element that names its title and description, without references to anything outside.
    """
    text = StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    drawn = text.getvalue()
    head, _, body = drawn[drawn.index("<svg") :].partition(">")
    box = re.search(r'viewBox="[0-9. -]+"', head)
    opening = f'<svg {box[0] if box else ""} role="img" aria-labelledby="{name}-t {name}-d">'
    named = f'<title id="{name}-t">{escape(title)}</title><desc id="{name}-d">{escape(description)}</desc>'
    return f"{opening}{named}{_coloured(_renamed(body, name))}".strip()


def legend(labels: dict[str, int]) -> str:
    """Return the legend of curves as a list: each label with the line and marker of its number."""
    return _list(f"{_swatch(number)}<span>{escape(label)}</span>" for label, number in labels.items())


def marker(number: int) -> int:
    """Return the index of a curve's marker: together with its colour, it repeats only after 64 curves."""
    return (number + number // len(SERIES)) % len(MARKERS)


def boxes(colours: Mapping[str, str]) -> str:
    """Return a legend as a list: each label with a box of its colour."""
    box = '<span class="box" style="background:{}"></span><span>{}</span>'
    return _list(box.format(_variable(colour), escape(label)) for label, colour in colours.items())


def _list(items: Iterable[str]) -> str:
    return f'<ul class="legend">{"".join(f"<li>{item}</li>" for item in items)}</ul>'


def _swatch(number: int) -> str:
    colour = _variable(SERIES[number % len(SERIES)])
    shape = SHAPES[marker(number)].replace("/>", f' fill="{colour}"/>')
    line = f'<line x1="0" y1="6" x2="24" y2="6" stroke="{colour}" stroke-width="2"/>'
    return f'<svg class="swatch" viewBox="0 0 24 12" aria-hidden="true">{line}{shape}</svg>'


# What a page says itself, for all its drawings, or nothing refers to.
USELESS = (
    re.compile(r"<metadata>.*?</metadata>\s*", re.DOTALL),
    re.compile(r"<defs>\s*<style.*?</style>\s*</defs>\s*", re.DOTALL),
    re.compile(r"(?<=<g) id=\"[^\"]*\"(?=/?>)"),
    re.compile(r"font-family: [^;\"<>]*; "),
)
# The shapes of MARKERS in a box of 24 x 12.
SHAPES = (
    '<circle cx="12" cy="6" r="4"/>',
    '<rect x="8" y="2" width="8" height="8"/>',
    '<path d="M12 1.5 16.5 10H7.5Z"/>',
    '<path d="M12 1 17 6 12 11 7 6Z"/>',
    '<path d="M12 10.5 7.5 2h9Z"/>',
    '<path d="M10 1.5h4v2.5h2.5v4H14v2.5h-4V8H7.5V4H10Z"/>',
    '<path d="M8 2h2.5L12 4 13.500 2H16L13.500 6 16 10h-2.500L12 8l-1.500 2H8l2.500-4Z"/>',
    '<path d="M12 1l1.500 3.500 3.500.3-2.700 2.500.9 3.700L12 9l-3.200 2 .9-3.700L7 4.800l3.500-.3Z"/>',
)


def _renamed(body: str, name: str) -> str:
    """Remove what is useless, and prefix the other ids, which are unique within a drawing only."""
    for useless in USELESS:
        body = useless.sub("", body)
    used_ids: set[str] = set()
    body = re.sub(r'(<path|<clipPath) id="([^"]+)"', lambda m: m[1] + _unique(f"{name}-{m[2]}", used_ids), body)
    body = body.replace('xlink:href="#', f'href="#{name}-')
    return body.replace("url(#", f"url(#{name}-")


def _unique(name: str, used_ids: set[str]) -> str:
    """Return the attribute of an id, or nothing if it occurred: equal markers are defined again under the same id."""
    if name in used_ids:
        return ""
    used_ids.add(name)
    return f' id="{name}"'


def _coloured(body: str) -> str:
    for colour in VARIABLES:
        body = body.replace(colour.lower(), _variable(colour))
    return body.replace(INK, "currentColor")


def _variable(colour: str) -> str:
    return f"var(--{VARIABLES[colour]})" if colour in VARIABLES else "currentColor"
