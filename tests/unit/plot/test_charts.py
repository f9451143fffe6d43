"""Charts of a page."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from matplotlib.collections import LineCollection

from orchestrator.plot import charts, inline


def test_interval_of_a_single_point_is_a_line() -> None:
    figure = charts.curves([charts.Curve(0, [charts.Point(2.0, 0.43, 0.38, 0.65)])], "ranks", "efficiency")
    [line] = [drawn for drawn in figure.axes[0].collections if isinstance(drawn, LineCollection)]
    assert line.get_segments()[0].tolist() == [[2.0, 0.38], [2.0, 0.65]]


def test_long_labels_that_differ_in_the_middle_stay_different() -> None:
    labels = [f"ours, backward_passes_per_step {passes}, precision bfloat16, 2" for passes in (1, 2, 4)]
    figure = charts.intervals([charts.Bar(label, 0, (1.0, 0.9, 1.1)) for label in labels], "ratio")
    shown = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    assert [text.replace("\n", " ") for text in shown] == labels
    assert max(len(line) for text in shown for line in text.split("\n")) <= charts.LONGEST


@pytest.mark.parametrize("values", [(0.99968, 0.99968, 0.99968), (0.9999, 0.9998, 1.0001), (2.5, 0.93, 2.71)])
@pytest.mark.parametrize("label", ["A/A: ours, 2", "horovod-tensorflow, precision, 2"])
def test_numbers_below_ratios_do_not_overlap(label: str, values: Sequence[float]) -> None:
    with inline.drawing():
        figure = charts.intervals([charts.Bar(label, 0, values)], "ratio")
        figure.draw_without_rendering()
        ticks = figure.axes[0].get_xticklabels()
        boxes = [tick.get_window_extent() for tick in ticks]
    assert "1" in {tick.get_text().rstrip(".0") for tick in ticks}
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))


def test_numbers_from_zero_have_no_factor_above_the_axis() -> None:
    with inline.drawing():
        figure = charts.curves([charts.Curve(0, [charts.Point(1, 2.4e6, 2.4e6, 2.4e6)])], "ranks", "images/s")
        charts.from_zero(figure)
        figure.draw_without_rendering()
    axis = figure.axes[0].yaxis
    assert axis.get_offset_text().get_text() == ""
    assert {"0", "500,000", "1e+06"} <= {tick.get_text() for tick in axis.get_ticklabels()}


def test_colour_and_marker_repeat_together_after_64_curves() -> None:
    pairs = {(number % len(inline.SERIES), inline.marker(number)) for number in range(64)}
    assert len(pairs) == 64
