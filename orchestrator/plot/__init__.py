"""Pictures of runs, and what they all have: the formats, the colours, the look of a panel.

=======  ======================================================
minutes  the series of a run out of Prometheus, over its minutes
epochs   the results of a training run, over its epochs
page     the same as a page for a browser
=======  ======================================================
"""

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
DOTS_PER_INCH = 144
# Colours that people with any kind of sight tell apart: Okabe and Ito 2008, "Color Universal Design".
BLACK, ORANGE, SKY, BLUE, VERMILION, PURPLE = "#000000", "#E69F00", "#56B4E9", "#0072B2", "#D55E00", "#CC79A7"
SPLITS = {"train": BLUE, "test": VERMILION}
PARTS = {"input": ORANGE, "compute": SKY, "communication": PURPLE}


def require(path: Path, formats: tuple[str, ...] = FORMATS) -> None:
    """Raises ConfigError where no picture can be written to a file of that name."""
    if path.suffix.lower() not in formats:
        raise ConfigError([f"--plot: {path}: a picture ends with {', '.join(formats)}"])


def canvas(width: float, height: float) -> "Figure":
    """An empty picture; inches."""
    from matplotlib.figure import Figure  # noqa: PLC0415  it takes a second, and nothing else needs it

    figure = Figure(figsize=(width, height))
    figure.set_layout_engine("constrained", w_pad=0.12, h_pad=0.1)
    return figure


def rendered(figure: "Figure", suffix: str) -> bytes:
    """The picture as a file of that kind; the same one every time but for PDF's own clock."""
    from matplotlib import rc_context  # noqa: PLC0415

    drawn = BytesIO()
    undated = {"Date": None} if suffix == ".svg" else None
    with rc_context({"svg.hashsalt": "orchestrator"}):
        figure.savefig(drawn, format=suffix[1:], dpi=DOTS_PER_INCH, metadata=undated)
    return drawn.getvalue()


def write(content: bytes, path: Path) -> None:
    """Raises ConfigError where there is no writing."""
    try:
        path.write_bytes(content)
    except OSError as error:
        raise ConfigError([f"--plot: {path}: {error.strerror}"], "name a file in a directory that is there") from error


def plain(panel: "Axes") -> None:
    """No more ink than it takes: a grid behind what is drawn, and no box around it."""
    panel.grid(alpha=0.3)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)
