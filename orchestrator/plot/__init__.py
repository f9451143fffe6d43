"""Pictures of runs and studies: formats, colours and the style of a panel."""

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
DOTS_PER_INCH = 144
# Colours that people with any colour vision can tell apart: Okabe and Ito 2008, "Color Universal Design".
BLACK, ORANGE, SKY, BLUE, VERMILION, PURPLE = "#000000", "#E69F00", "#56B4E9", "#0072B2", "#D55E00", "#CC79A7"
GREEN, YELLOW = "#009E73", "#F0E442"
SPLITS = {"train": BLUE, "test": VERMILION}
PARTS = {"input": ORANGE, "compute": SKY, "communication": PURPLE}


def require(path: Path, formats: tuple[str, ...] = FORMATS) -> None:
    """Check that a picture can be written to a file of this name.

    Raises:
        ConfigError: It cannot.
    """
    if path.suffix.lower() not in formats:
        raise ConfigError([f"--plot: {path}: a picture ends with {', '.join(formats)}"])


def canvas(width: float, height: float) -> "Figure":
    """Return an empty picture; width and height in inches."""
    from matplotlib import rcParams  # noqa: PLC0415  takes a second, and only pictures need it
    from matplotlib.figure import Figure  # noqa: PLC0415

    rcParams["text.parse_math"] = False  # names are no formulas
    figure = Figure(figsize=(width, height))
    figure.set_layout_engine("constrained", w_pad=0.12, h_pad=0.1)
    return figure


def rendered(figure: "Figure", suffix: str) -> bytes:
    """Return the picture in the format of ``suffix``; always the same bytes except for PDF's timestamp."""
    from matplotlib import rc_context  # noqa: PLC0415

    drawn = BytesIO()
    undated = {"Date": None} if suffix == ".svg" else None
    with rc_context({"svg.hashsalt": "orchestrator"}):
        figure.savefig(drawn, format=suffix[1:], dpi=DOTS_PER_INCH, metadata=undated)
    return drawn.getvalue()


def plain(panel: "Axes") -> None:
    """Reduce the panel's decoration: a grid behind the curves, and no box around them."""
    panel.grid(alpha=0.3)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)
