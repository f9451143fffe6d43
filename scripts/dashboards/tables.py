"""Panels of rows and columns, and curves over an axis other than time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from string import ascii_uppercase

from grafana_foundation_sdk.builders import common as parts
from grafana_foundation_sdk.builders import table, xychart
from grafana_foundation_sdk.models import dashboard
from grafana_foundation_sdk.models import xychart as xy
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from scripts.dashboards.panels import STEPS_OF_A_RANGE, describe, legend, setting, target, tooltip
from scripts.dashboards.units_and_queries import COUNT, NO_COLOUR, PLAIN, Scale, nothing

LEAST_WIDTH, LETTER, AROUND = 80, 8, 25  # pixels; of a column, of a letter of its header, and around the header


@dataclass(frozen=True)
class Column:
    """A column of a table: its header, an instant query, unit and scale.

    ``worded`` shows the scale's words instead of numbers.
    """

    header: str
    query: str
    unit: str
    scale: Scale = PLAIN
    worded: bool = False
    decimals: int | None = None
    width: int = 0  # minimum, pixels; 0 for that of its header


@dataclass(frozen=True)
class Rows:
    """Rows of a table.

    ``headers`` are by label of the queries; ``links`` are from the labels' cells, as Grafana's URLs; ``widths`` in
    pixels.
    """

    headers: Mapping[str, str]
    links: Mapping[str, str] = field(default_factory=dict)
    widths: Mapping[str, int] = field(default_factory=dict)


def listing(
    title: str, says: str, rows: Rows, columns: Sequence[Column], empty: str, sort: str = "", width: int = 24
) -> table.Panel:
    """Show a table with one row per set of labels, and one column per query.

    Args:
        title: Title of the panel.
        says: Description of the panel.
        rows: Labels that identify a row.
        columns: The queries.
        empty: Text to show if there is no data.
        sort: Header of the column to sort by, the highest value first.
        width: Width in the 24 columns of a row.

    Returns:
        The panel.
    """
    panel = table.Panel()
    describe(panel, title, says, COUNT, empty)
    panel.span(width).height(8).thresholds(PLAIN.thresholds()).max_data_points(STEPS_OF_A_RANGE)
    panel.min_width(LEAST_WIDTH)
    renamed = dict(rows.headers)
    for letter, column in zip(ascii_uppercase, columns, strict=False):
        panel.with_target(target(letter, column.query, column.header).instant().format(PromQueryFormat.TABLE))
        panel.override_by_name(column.header, _cell(column))
        renamed |= {f"Value #{letter}": column.header} | ({"Value": column.header} if len(columns) == 1 else {})
    panel.with_transformation(dashboard.DataTransformerConfig(id_val="merge", options={}))
    panel.with_transformation(_organise(renamed))
    for label, url in rows.links.items():
        header = rows.headers[label]
        panel.override_by_name(header, [setting("links", [{"title": f"Open this {header.lower()}", "url": url}])])
    for label, wide in rows.widths.items():
        panel.override_by_name(rows.headers[label], [setting("custom.minWidth", wide)])
    if sort:
        panel.sort_by([parts.TableSortByFieldState().display_name(sort).desc(True)])
    return panel


def curves(
    title: str, says: str, x: tuple[str, str], y: tuple[str, str], by: str, unit: str, empty: str, width: int = 12
) -> xychart.Panel:
    """Show one curve for each value of a label.

    Args:
        title: Title of the panel.
        says: Description of the panel.
        x: Name of the axis and range query by the label, in seconds.
        y: Name of the axis and range query by the label.
        by: The label.
        unit: Unit of y.
        empty: Text to show if there is no data.
        width: Width in the 24 columns of a row.

    Returns:
        The panel.
    """
    panel = xychart.Panel()
    describe(panel, title, says, unit, empty)
    for letter, (name, query) in zip("AB", (x, y), strict=True):
        panel.with_target(target(letter, query, name).range().format(PromQueryFormat.TABLE))
    panel.with_transformation(dashboard.DataTransformerConfig(id_val="merge", options={}))
    panel.with_transformation(_organise({"Value #A": x[0], "Value #B": y[0]}))
    split = {"fields": [by], "keepFields": False, "naming": {"asLabels": True}}
    panel.with_transformation(dashboard.DataTransformerConfig(id_val="partitionByValues", options=split))
    panel.mapping(xy.SeriesMapping.AUTO).series([]).show(xy.XYShowMode.LINES).line_width(2)
    panel.legend(legend([])).tooltip(tooltip()).span(width).height(10).thresholds(PLAIN.thresholds())
    panel.override_by_name(x[0], [setting("unit", "s"), setting("custom.axisLabel", x[0])])
    return panel


def _cell(column: Column) -> list[dashboard.DynamicConfigValue]:
    coloured = {"type": "color-background" if column.scale.limits else "auto", "mode": "basic"}
    properties: dict[str, object] = {"unit": column.unit, "noValue": "-", "custom.cellOptions": coloured}
    properties["custom.minWidth"] = column.width or AROUND + LETTER * len(column.header)
    properties["thresholds"] = column.scale.thresholds().build()
    properties["mappings"] = [*(column.scale.mappings() if column.worded else []), nothing("-", NO_COLOUR)]
    if column.decimals is not None:
        properties["decimals"] = column.decimals
    return [setting(name, value) for name, value in properties.items()]


def _organise(renamed: Mapping[str, str]) -> dashboard.DataTransformerConfig:
    options = {"excludeByName": {"Time": True}, "renameByName": dict(renamed)}
    return dashboard.DataTransformerConfig(id_val="organize", options=options)
