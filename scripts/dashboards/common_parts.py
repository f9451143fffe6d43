"""Common parts of all dashboards: identity, links to the others, variables, sections of panels that fill the width."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import timeseries
from grafana_foundation_sdk.models import dashboard

from scripts.dashboards import navigation
from scripts.dashboards.panels import Panel
from scripts.dashboards.units_and_queries import SCRAPE_INTERVAL, SOURCE

VERSION = 1  # constant: Grafana counts versions only of dashboards that people may edit
TAG = "orchestrator"


@dataclass(frozen=True)
class Section:
    """A heading and the panels below it; the first section of a dashboard, its verdict, has no heading."""

    title: str
    panels: Sequence[Panel]


def frame(
    uid: str,
    says: str,
    variables: Sequence[build.QueryVariable],
    sections: Sequence[Section],
    marks: Sequence[build.AnnotationQuery] = (),
    marked: Sequence[str] = (),
    since: str = "now-30m",
    refresh: str = "5s",
) -> dashboard.Dashboard:
    """Build a dashboard.

    Args:
        uid: The dashboard's id.
        says: Its description.
        variables: Its variables.
        sections: Its panels.
        marks: Annotations.
        marked: Titles of the line panels that show the annotations.
        since: Begin of its time range, in Grafana's words.
        refresh: Time between two refreshes, in Grafana's words.

    Returns:
        The dashboard.
    """
    board = build.Dashboard(navigation.DASHBOARDS[uid])
    board.uid(uid).description(says).tags([TAG]).version(VERSION).readonly().timezone("browser")
    board.time(since, "now").refresh(refresh).tooltip(dashboard.DashboardCursorSync.TOOLTIP)
    board.links([*navigation.links(uid)]).variables([*variables])
    number, ids = 0, []
    for section in sections:
        if section.title:
            number += 1
            board.with_row(build.Row(section.title).id(number))
        for panel in section.panels:
            number += 1
            panel.id(number)
            board.with_panel(panel)
            ids += [number] if isinstance(panel, timeseries.Panel) and panel.build().title in marked else []
    for mark in marks:
        mark.filter(build.AnnotationPanelFilter().ids(ids))
    board.annotations([*marks])
    return in_sight(board.build())


def of_nodes(uid: str, says: str, sections: Mapping[str, Sequence[Panel]]) -> dashboard.Dashboard:
    """Build a dashboard about the nodes that its reader chooses.

    Args:
        uid: The dashboard's id.
        says: Its description.
        sections: Panels by the title of their section.

    Returns:
        The dashboard.
    """
    variables = [navigation.cluster(), navigation.nodes()]
    return frame(uid, says, variables, [Section(title, panels) for title, panels in sections.items()])


def in_sight(board: dashboard.Dashboard) -> dashboard.Dashboard:
    """Show links and annotations on the dashboard: the SDK's default puts them behind a menu."""
    controls: list[Any] = [*(board.links or [])]
    for control in [*controls, *(board.annotations.list_val or [])]:
        control.placement = None
    return board


def change(name: str, colour: str, query: str, text: str) -> build.AnnotationQuery:
    """Annotate the times at which `query` has a value.

    Args:
        name: The annotation's title.
        colour: Colour of its marks.
        query: PromQL.
        text: Text of a mark; may contain {{label}}.

    Returns:
        The annotation.
    """
    mark = build.AnnotationQuery()
    mark.name(name).datasource(SOURCE).enable(True).hide(False).icon_color(colour)
    mark.expr(query).title_format(name).text_format(text).step(SCRAPE_INTERVAL).use_value_for_time(False)
    return mark


def changed(series: str) -> str:
    """Return a query for `series` at the steps where its value differs from the step before, or where it begins."""
    return f"{series} unless {series} == {series} offset $__interval"
