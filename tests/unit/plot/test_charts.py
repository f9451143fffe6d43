"""Charts of a page."""

from matplotlib.collections import LineCollection

from orchestrator.plot import charts


def test_interval_of_a_single_point_is_a_line() -> None:
    figure = charts.curves([charts.Curve(0, [charts.Point(2.0, 0.43, 0.38, 0.65)])], "ranks", "efficiency")
    [line] = [drawn for drawn in figure.axes[0].collections if isinstance(drawn, LineCollection)]
    assert line.get_segments()[0].tolist() == [[2.0, 0.38], [2.0, 0.65]]
