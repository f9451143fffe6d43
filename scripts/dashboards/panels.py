"""Panels that show numbers: a verdict, a tile, lines over time. Tables and curves are in `tables`.

Each has a title, a description of one sentence, and a text to show if there is no data. Queries are PromQL. Fields are
those of the SDK (https://grafana.github.io/grafana-foundation-sdk/), which are Grafana's own.
"""

from collections.abc import Mapping, Sequence
from string import ascii_uppercase
from typing import TypeAlias

from grafana_foundation_sdk.builders import common as parts
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import prometheus, stat, table, timeseries, xychart
from grafana_foundation_sdk.models import common, dashboard

from scripts.dashboards.units_and_queries import LEAST, PLAIN, SCRAPE_INTERVAL, SOURCE, Scale, nothing

Panel: TypeAlias = stat.Panel | timeseries.Panel | table.Panel | xychart.Panel
# Samples of the time range: a tile shows one value, so its width does not matter.
STEPS_OF_A_RANGE = 2000
NAMED = parts.VizTextDisplayOptions().title_size(14).value_size(24)  # pixels; a long name would shrink the value


def verdict(
    title: str, says: str, query: str, unit: str, scale: Scale, empty: str, names: tuple[str, str] = ("", "")
) -> stat.Panel:
    """Show a number, and above it a word on the colour of its scale.

    Args:
        title: Title of the panel.
        says: Description of the panel.
        query: PromQL.
        unit: Unit of the number.
        scale: Words and colours.
        empty: Text to show if there is no data.
        names: Labels of word and number; may contain {{label}}.

    Returns:
        The panel.
    """
    panel = _stat(title, says, unit, scale, empty)
    panel.with_target(target("A", query, names[0] or "word").instant())
    panel.with_target(target("B", query, names[1] or "number").instant())
    panel.override_by_query("A", [setting("mappings", [*scale.mappings(), nothing(empty)])])
    panel.color_mode(common.BigValueColorMode.BACKGROUND_SOLID).orientation(common.VizOrientation.HORIZONTAL)
    if any(names):
        panel.text(NAMED)
    panel.text_mode(common.BigValueTextMode.VALUE_AND_NAME if any(names) else common.BigValueTextMode.VALUE)
    return panel


def tile(
    title: str, says: str, queries: Mapping[str, str], unit: str, empty: str, scale: Scale = PLAIN, worded: bool = False
) -> stat.Panel:
    """Show numbers as of the end of the range.

    Args:
        title: Title of the panel.
        says: Description of the panel.
        queries: PromQL by name; a single query needs no name.
        unit: Unit of the numbers.
        empty: Text to show if there is no data.
        scale: Words and colours.
        worded: Show the scale's words instead of numbers.

    Returns:
        The panel.
    """
    panel = _stat(title, says, unit, scale, empty)
    for letter, (name, query) in zip(ascii_uppercase, queries.items(), strict=False):
        panel.with_target(target(letter, query, name).instant())
    panel.color_mode(common.BigValueColorMode.BACKGROUND_SOLID if worded else common.BigValueColorMode.VALUE)
    panel.mappings([*(scale.mappings() if worded else []), nothing(empty)])
    named = len(queries) > 1 or "{{" in next(iter(queries))
    if "{{" in next(iter(queries)):
        panel.text(NAMED)
    panel.text_mode(common.BigValueTextMode.VALUE_AND_NAME if named else common.BigValueTextMode.VALUE)
    return panel


def lines(
    title: str,
    says: str,
    queries: Mapping[str, str],
    unit: str,
    empty: str,
    scale: Scale = PLAIN,
    width: int = 12,
) -> timeseries.Panel:
    """Show series over time, with the limits of the scale as dashed lines, and last and mean values in the legend.

    Args:
        title: Title of the panel.
        says: Description of the panel.
        queries: PromQL by legend, which may contain {{label}}.
        unit: Unit of the series.
        empty: Text to show if there is no data.
        scale: Limits.
        width: Width in the 24 columns of a row.

    Returns:
        The panel.
    """
    panel = timeseries.Panel()
    describe(panel, title, says, unit, empty)
    if unit in LEAST:
        panel.axis_soft_max(LEAST[unit])
    panel.span(width).height(8).min(0).line_width(1).fill_opacity(8).show_points(common.VisibilityMode.NEVER)
    for letter, (name, query) in zip(ascii_uppercase, queries.items(), strict=False):
        panel.with_target(target(letter, query, name).range())
    panel.legend(legend(["lastNotNull", "mean"])).tooltip(tooltip())
    dashed = common.GraphThresholdsStyleMode.DASHED if scale.limits else common.GraphThresholdsStyleMode.OFF
    panel.thresholds(scale.thresholds()).thresholds_style(parts.GraphThresholdsStyleConfig().mode(dashed))
    return panel


def stacked(panel: timeseries.Panel, colours: Mapping[str, str]) -> timeseries.Panel:
    """Stack the lines, and give each area its own colour, by legend."""
    panel.stacking(parts.StackingConfig().mode(common.StackingMode.NORMAL)).fill_opacity(60)
    for name, colour in colours.items():
        panel.override_by_name(name, [setting("color", {"mode": "fixed", "fixedColor": colour})])
    return panel


def spanned(panels: Sequence[Panel], widths: Sequence[int]) -> Sequence[Panel]:
    """Set the widths of the panels, in the 24 columns of a row."""
    for panel, width in zip(panels, widths, strict=True):
        panel.span(width)
    return panels


def _stat(title: str, says: str, unit: str, scale: Scale, empty: str) -> stat.Panel:
    panel = stat.Panel()
    describe(panel, title, says, unit, empty)
    panel.mappings([nothing(empty)])
    panel.span(4).height(4).thresholds(scale.thresholds()).max_data_points(STEPS_OF_A_RANGE)
    panel.graph_mode(common.BigValueGraphMode.NONE)
    panel.reduce_options(parts.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
    colour = build.FieldColor().mode(dashboard.FieldColorModeId.THRESHOLDS)
    panel.color_scheme(colour)
    return panel


def describe(panel: Panel, title: str, says: str, unit: str, empty: str) -> None:
    """Set the properties that every panel has.

    Args:
        panel: The panel.
        title: Its title.
        says: Its description.
        unit: Unit of its values.
        empty: Text to show if there is no data.
    """
    panel.title(title).description(says).unit(unit).no_value(empty).datasource(SOURCE).interval(SCRAPE_INTERVAL)


def target(letter: str, query: str, name: str) -> prometheus.Dataquery:
    """Return a query; the caller makes it ``instant()``, at the end of the range, or ``range()``, over the whole range.

    Args:
        letter: The query's id in its panel.
        query: PromQL.
        name: Its legend.

    Returns:
        The query.
    """
    return prometheus.Dataquery().expr(query).legend_format(name).ref_id(letter)


def setting(name: str, value: object) -> dashboard.DynamicConfigValue:
    """Return one property of an override."""
    return dashboard.DynamicConfigValue(id_val=name, value=value)


def legend(calculated: list[str]) -> parts.VizLegendOptions:
    """Return a legend with the series' names, and a table of the calculated values of each."""
    shown = parts.VizLegendOptions()
    shown.display_mode(common.LegendDisplayMode.TABLE if calculated else common.LegendDisplayMode.LIST)
    shown.placement(common.LegendPlacement.BOTTOM).show_legend(True).calcs(calculated)
    return shown


def tooltip() -> parts.VizTooltipOptions:
    """Return a tooltip with all series at the pointer, the highest first."""
    shown = parts.VizTooltipOptions()
    shown.mode(common.TooltipDisplayMode.MULTI).sort(common.SortOrder.DESCENDING)
    return shown
