"""Page of a run: its facts, and curves in the colours of the page."""

import re
from xml.etree import ElementTree

from orchestrator.plot import html, page
from orchestrator.schema import Scores
from tests import builders

# Seconds of a step by what they went to, of each of two ranks.
PARTS = {
    "input_seconds": [0.01, 0.01],
    "compute_seconds": [0.08, 0.08],
    "communication_seconds": [0.01, 0.01],
}


def test_epoch_in_which_the_run_ended_is_a_part() -> None:
    part = Scores(loss=0.2, top1=0.95, top5=1.0, images=250)
    results = builders.results([builders.epoch(1), builders.epoch(2), builders.epoch(3, train=part, test=part)])
    facts = html.facts(results.model_copy(update={"ended": "steps"}))
    assert "1,000 training images per epoch" in facts["data"]
    assert facts["time"] == "0:00:12, 2 epochs and a part of the next, ended by steps"


def test_one_epoch_is_no_plural() -> None:
    results = builders.results([builders.epoch(1)]).model_copy(update={"ended": "epochs"})
    assert html.facts(results)["time"] == "0:00:04, 1 epoch, ended by epochs"


def drawings(text: str) -> list[str]:
    return [drawing for drawing in re.findall(r"<svg.*?</svg>", text, re.DOTALL) if 'role="img"' in drawing]


def test_page_has_the_style_of_all_pages() -> None:
    text = html.text(builders.results([builders.epoch(1)]))
    assert f"<style>\n{page.STYLE.read_text()}</style>" in text
    assert text.count("<style") == 1


def test_curves_take_the_colours_of_the_page() -> None:
    text = html.text(builders.results([builders.epoch(1, **PARTS), builders.epoch(2, **PARTS)]), top1=0.5)
    assert len(drawings(text)) == 5
    for drawing in drawings(text):
        ElementTree.fromstring(drawing)  # noqa: S314
        assert re.findall(r"#[0-9a-f]{6}", drawing) == []
        assert len(re.findall(r"stroke: (?:currentColor|var\(--[a-z]+\))", drawing)) > 2


def test_drawings_have_unique_ids_and_are_described() -> None:
    text = html.text(builders.results([builders.epoch(1, **PARTS)]))
    ids = re.findall(r'(?<= )id="([^"]*)"', text)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:href="#|url\(#)([\w.-]+)', text)) <= set(ids)
    assert '<desc id="loss-d">nats by epoch; train: 0.25 at the end; test: 0.25 at the end</desc>' in text


def test_legends_are_text_of_the_page_with_the_colour_of_their_curve() -> None:
    text = html.text(builders.results([builders.epoch(1, **PARTS)]))
    for colour, label in (
        ("var(--blue)", "train: 90.0 % at best"),
        ("currentColor", "all ranks together: 400 on average"),
        ("var(--orange)", "input 10 %"),
    ):
        assert f'<span class="box" style="background:{colour}"></span><span>{label}</span>' in text
    assert not any("at best" in re.sub("<desc.*?</desc>", "", drawing) for drawing in drawings(text))


def test_run_without_a_split_has_a_page_that_says_so() -> None:
    [*_, step] = drawings(html.text(builders.results([builders.epoch(1)])))
    assert "not in these results" in step


def test_whole_epochs_are_counted() -> None:
    results = builders.results([builders.epoch(1), builders.epoch(2)]).model_copy(update={"ended": "epochs"})
    assert html.facts(results)["time"] == "0:00:08, 2 epochs, ended by epochs"
