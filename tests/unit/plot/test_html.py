"""Facts on the page of a run."""

from orchestrator.plot import html
from orchestrator.schema import Scores
from tests import builders


def test_epoch_in_which_the_run_ended_is_a_part() -> None:
    part = Scores(loss=0.2, top1=0.95, top5=1.0, images=250)
    results = builders.results([builders.epoch(1), builders.epoch(2), builders.epoch(3, train=part, test=part)])
    facts = html.facts(results.model_copy(update={"ended": "steps"}))
    assert "1,000 training images per epoch" in facts["data"]
    assert facts["time"] == "0:00:12, 2 epochs and a part of the next, ended by steps"


def test_one_epoch_is_no_plural() -> None:
    results = builders.results([builders.epoch(1)]).model_copy(update={"ended": "epochs"})
    assert html.facts(results)["time"] == "0:00:04, 1 epoch, ended by epochs"


def test_narrow_window_scrolls_the_picture_and_wraps_names() -> None:
    page = html.text(builders.results([builders.epoch(1)]), "<svg></svg>")
    assert '<div class="picture" role="region" aria-label="Curves of the run" tabindex="0"><svg>' in page
    assert ".picture { overflow-x: auto }" in page
    assert "h1, td { overflow-wrap: anywhere }" in page


def test_page_of_black_curves_stays_light_in_dark_mode() -> None:
    page = html.text(builders.results([builders.epoch(1)]), "<svg></svg>")
    assert "background: #fff" in page


def test_whole_epochs_are_counted() -> None:
    results = builders.results([builders.epoch(1), builders.epoch(2)]).model_copy(update={"ended": "epochs"})
    assert html.facts(results)["time"] == "0:00:08, 2 epochs, ended by epochs"
