"""Charts of a page."""

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


def test_colour_and_marker_repeat_together_after_64_curves() -> None:
    pairs = {(number % len(inline.SERIES), inline.marker(number)) for number in range(64)}
    assert len(pairs) == 64
