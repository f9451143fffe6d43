"""Plots of a training run over its epochs, with numbers of two ranks of resnet20 on MNIST."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from matplotlib.text import Text

from orchestrator.bottleneck import explain
from orchestrator.errors import ConfigError, StateError
from orchestrator.plot import epoch_plot, html
from orchestrator.schema import Epoch, Results, Scores
from tests import builders

# Loss and top-1 of training and test, images/s, milliseconds of input, compute and communication of both ranks.
MEASURED = [
    (0.8481, 0.7357, 0.6853, 0.823, 622.6, (2.07, 2.22), (180.8, 185.4), (22.8, 17.9)),
    (0.1113, 0.9661, 0.4159, 0.876, 765.3, (1.30, 1.75), (147.8, 149.5), (17.1, 17.1)),
    (0.0681, 0.9792, 0.1177, 0.968, 723.6, (1.28, 1.06), (165.4, 161.6), (9.8, 14.8)),
    (0.0406, 0.9881, 0.0397, 0.988, 702.4, (1.49, 1.27), (169.9, 166.2), (10.4, 15.2)),
    (0.0195, 0.9942, 0.0360, 0.988, 533.4, (1.95, 2.23), (214.3, 213.1), (22.9, 25.5)),
    (0.0148, 0.9967, 0.0346, 0.989, 713.6, (1.59, 1.70), (162.1, 163.8), (14.9, 14.7)),
]


def epoch(number: int, row: tuple[Any, ...]) -> Epoch:
    loss, top1, test_loss, test_top1, rate, *parts = row
    names = ("input_seconds", "compute_seconds", "communication_seconds")
    split = {name: [ms / 1e3 for ms in part] for name, part in zip(names, parts, strict=True)}
    scores = {
        "train": Scores(loss=loss, top1=top1, top5=1.0, images=8960),
        "test": Scores(loss=test_loss, top1=test_top1, top5=1.0, images=1000),
    }
    return builders.epoch(number, steps=70 * number, images_per_second=rate, **scores, **split)


RUN = builders.results([epoch(number, row) for number, row in enumerate(MEASURED, start=1)])
FIRST = RUN.model_copy(update={"epochs": RUN.epochs[:1]})


def panels(results: Results, top1: float | None = None) -> list[Any]:
    """Return the panels over epochs, then the panel over time."""
    loss, accuracy, over_time, speed, split = epoch_plot.picture(results, top1).axes
    return [loss, accuracy, speed, split, over_time]


def points(line: Any) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)]


def test_loss_accuracy_and_speed_are_drawn_with_units() -> None:
    loss, top1, speed, *_ = panels(RUN)
    train, test = loss.get_lines()
    assert points(train) == [(number, row[0]) for number, row in enumerate(MEASURED, start=1)]
    assert points(test)[-1] == (6, 0.0346)
    assert [points(line)[-1][1] for line in top1.get_lines()] == pytest.approx([99.67, 98.9])
    assert [y for _, y in points(speed.get_lines()[0])] == [row[4] for row in MEASURED]
    assert [panel.get_ylabel() for panel in (loss, top1, speed)] == ["nats", "top-1, %", "images/s"]
    assert {panel.get_xlabel() for panel in (loss, top1, speed)} == {"epoch"}


def test_legends_show_the_values_that_people_look_for() -> None:
    labels = [panel.get_legend_handles_labels()[1] for panel in panels(RUN)]
    assert labels[0] == ["train: 0.0148 at the end", "test: 0.0346 at the end"]
    assert labels[1] == ["train: 99.7 % at best", "test: 98.9 % at best"]
    assert labels[2] == ["all ranks together: 677 on average"]
    assert labels[3] == ["input 1 %", "compute 90 %", "communication 9 %"]


def test_long_legends_leave_titles_readable() -> None:
    scores = {"train": Scores(loss=1.2345e-5, top1=1.0, top5=1.0, images=1), "test": RUN.epochs[0].test}
    last = RUN.epochs[-1].model_copy(update=scores)
    figure = epoch_plot.picture(RUN.model_copy(update={"epochs": [*RUN.epochs[:-1], last]}), 0.91234)
    figure.draw_without_rendering()
    for panel in figure.axes:
        texts, legend = [drawn for drawn in panel.get_children() if isinstance(drawn, Text)], panel.get_legend()
        [title] = [text for text in texts if text.get_text() == panel.get_title("left")]
        assert legend
        assert not title.get_window_extent().overlaps(legend.get_window_extent())


def test_accuracy_over_time_has_a_mark_where_it_is_reached() -> None:
    *_, over_time = panels(RUN, top1=0.96)
    test, level, moment = over_time.get_lines()
    assert points(test) == [(4.0 * number, row[3] * 100) for number, row in enumerate(MEASURED, start=1)]
    assert (level.get_ydata()[0], moment.get_xdata()[0]) == (96.0, 12.0)
    assert over_time.get_legend_handles_labels()[1] == ["test", "96 % after 12 s"]
    assert over_time.get_xlabel() == "time of training and evaluation, s"


@pytest.mark.parametrize(
    ("seconds", "unit", "last"), [(24.0, "s", 144.0), (60.0, "min", 6.0), (3600.0, "h", 6.0), (0.0, "s", 0.0)]
)
def test_time_has_a_fitting_unit(seconds: float, unit: str, last: float) -> None:
    slow = [each.model_copy(update={"seconds": seconds, "test_seconds": 0.0}) for each in RUN.epochs]
    *_, over_time = panels(RUN.model_copy(update={"epochs": slow}))
    assert over_time.get_xlabel().endswith(f", {unit}")
    assert points(over_time.get_lines()[0])[-1][0] == pytest.approx(last)


def test_missed_accuracy_is_drawn_as_missed() -> None:
    *_, over_time = panels(RUN, top1=0.999)
    assert over_time.get_legend_handles_labels()[1] == ["test", "99.9 % not reached"]
    assert len(over_time.get_lines()) == 2


def test_each_epoch_has_a_bar_of_step_parts_in_milliseconds() -> None:
    *_, split, _ = panels(RUN)
    tops = [bar.get_y() + bar.get_height() for bar in split.patches[-6:]]
    assert tops == pytest.approx([sum(map(sum, row[5:])) / 2 for row in MEASURED])
    assert split.get_ylabel() == "ms, mean over ranks"


def test_parts_of_many_epochs_are_one_outline_each() -> None:
    rows = MEASURED * 10
    run = builders.results([epoch(number, row) for number, row in enumerate(rows, start=1)])
    *_, split, _ = panels(run)
    outlines = [outline.get_data() for outline in split.patches]
    assert len(outlines) == 3
    assert outlines[-1].values == pytest.approx([sum(map(sum, row[5:])) / 2 for row in rows])
    assert (outlines[-1].edges[0], outlines[-1].edges[-1]) == (0.5, 60.5)
    for colour in ("orange", "sky", "purple"):
        assert f'class="box" style="background:var(--{colour})"' in html.text(run)


def test_axes_of_parts_of_a_whole_start_at_zero() -> None:
    loss, _, speed, split, _ = panels(RUN)
    assert [panel.get_ylim()[0] for panel in (loss, speed, split)] == [0.0, 0.0, 0.0]


def test_run_of_one_epoch_is_points_at_a_whole_number() -> None:
    loss, top1, *_ = drawn = panels(FIRST)
    assert [line.get_marker() for panel in (loss, top1) for line in panel.get_lines()] == ["o"] * 4
    assert {tuple(panel.get_xticks()) for panel in drawn[:4]} == {(1,)}
    assert top1.get_ylim() == (0.0, 100.0)
    assert loss.get_ylim()[1] > MEASURED[0][0]


def test_bottleneck_is_printed_below() -> None:
    caption = epoch_plot.picture(RUN).get_supxlabel()
    assert "2 ranks on 2 nodes, 32 images per rank and step, float32" in caption
    assert caption.endswith("compute-bound: 90 % of the step is spent computing, the best case")


def test_names_in_pictures_are_no_formulas(tmp_path: Path) -> None:
    epoch_plot.draw(FIRST.model_copy(update={"run": r"$\frac$"}), tmp_path / "run.svg")
    assert (tmp_path / "run.svg").exists()


def test_results_without_a_split_have_no_bars_and_say_so() -> None:
    *_, split, _ = panels(builders.results([builders.epoch(1), builders.epoch(2)]))
    assert list(split.patches) == []
    assert [text.get_text() for text in split.texts] == ["not in these results"]


class Page(HTMLParser):
    """Parsed page: open and closed elements, addresses, text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []
        self.said = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open += [] if tag == "meta" else [tag]
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.said += data


def test_page_contains_curves_and_facts_and_loads_nothing(tmp_path: Path) -> None:
    run = builders.results(RUN.epochs, run="<b>&run", until="top1=0.96")
    epoch_plot.draw(run, tmp_path / "run.html")
    text = (tmp_path / "run.html").read_text()
    page = Page(text)
    assert page.open == []
    assert text.count('role="img"') == 5
    assert [address for address in page.addresses if not address.startswith("#")] == []
    assert not re.search(r"url\((?!#)|<script|<b>", text)
    for words in (
        "<b>&run",
        "8,960 training images per epoch",
        "test top-1 98.90%",
        str(explain(RUN)),
        "schedule step",
        "top-1 96.00%: reached after 12.0 s, in epoch 3",
    ):
        assert words in page.said


@pytest.mark.parametrize(("name", "begins"), [("a.png", b"\x89PNG\r\n"), ("a.SVG", b"<?xml"), ("a.pdf", b"%PDF"),
                                              ("a.html", b"<!doctype html>")])  # fmt: skip
def test_picture_has_the_format_of_its_name(tmp_path: Path, name: str, begins: bytes) -> None:
    epoch_plot.draw(FIRST, tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(begins)


def test_same_results_give_the_same_picture(tmp_path: Path) -> None:
    for name in ("one.svg", "two.svg"):
        epoch_plot.draw(FIRST, tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_impossible_or_unwritable_plot_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"run\.gif: a picture ends with \.png, \.svg, \.pdf, \.html"):
        epoch_plot.draw(RUN, tmp_path / "run.gif")
    with pytest.raises(ConfigError, match="No such file or directory"):
        epoch_plot.draw(FIRST, tmp_path / "nowhere" / "run.png")
    with pytest.raises(StateError, match="has no epoch to draw"):
        epoch_plot.draw(builders.results([]), tmp_path / "run.png")
