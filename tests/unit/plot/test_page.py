"""Style of pages: colours that can be seen in light, in dark and on paper."""

import re
from itertools import combinations

import pytest

from orchestrator.plot import inline, page

MODES = {"light": ":root {", "dark": "@media (prefers-color-scheme: dark) {", "print": "@media print {"}
WORDS = ("ink", "soft", "link")
CURVES = tuple(inline.VARIABLES.values())


def colours(mode: str) -> dict[str, str]:
    """Return the colours of a mode as #rrggbb by the name of the variable."""
    block = page.STYLE.read_text().split(MODES[mode], 1)[1].split("}", 1)[0]
    found = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{3,6})", block))
    return {name: "#" + "".join(c * 2 for c in text[1:]) if len(text) == 4 else text for name, text in found.items()}


def luminance(colour: str) -> float:
    shares = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours as WCAG 2.2 defines it, 1 to 21."""
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("mode", MODES)
def test_words_and_curves_can_be_seen_in_every_mode(mode: str) -> None:
    found = colours(mode)
    assert {*WORDS, *CURVES} <= set(found)
    for ground in ("ground", "panel", "warn-ground", "good-ground"):
        assert [name for name in WORDS if contrast(found[name], found[ground]) < 4.5] == []
    assert [name for name in CURVES if contrast(found[name], found["ground"]) < 3.0] == []


@pytest.mark.parametrize("mode", MODES)
def test_no_two_curves_have_the_same_colour(mode: str) -> None:
    found = colours(mode)
    assert all(found[one] != found[other] for one, other in combinations((*CURVES, "ink"), 2))


def test_title_is_text_and_never_markup() -> None:
    assert "<title>&lt;b&gt; a</title>" in page.document("<b>\x1b[31m a", [], [])
