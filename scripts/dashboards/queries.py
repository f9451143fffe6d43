"""All queries of the dashboards, read from their JSON, with values for Grafana's variables and macros.

Values are inserted as Grafana does (https://grafana.com/docs/grafana/latest/dashboards/variables/): a variable with
several values becomes a group of a regular expression; a variable's own query asks for a label of all series in the
range, or for the result of a query at its end.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

FOLDER = Path(__file__).parents[2] / "infra/grafana/dashboards"
GPU_METRICS = "DCGM_FI_"
MACROS = {"__interval": "5s", "__rate_interval": "20s", "__range": "30m"}
Board = dict[str, Any]
Kind = Literal["instant", "range"]

QUIET = "nothing is wrong"
IDLE = "no training at the moment"
SPEED = "the link's speed is not known"
BASELINE = "no run of this model, data, image size, precision, batch and ranks per node on one node in 30 days"
EVALUATION = "no epoch has ended"
CHECKPOINT = "no checkpoint was written"
# Queries that may return no data, and the meaning: dashboard, panel, kind of query or its name. All others have data.
MAY_BE_EMPTY: Mapping[tuple[str, str, str], str] = {
    ("Cluster", "Firing alerts", "instant"): QUIET,
    ("Cluster", "Input wait", "instant"): IDLE,
    ("Cluster", "Communication", "instant"): IDLE,
    ("Cluster", "Slowest rank", "instant"): IDLE,
    ("Network", "Communication", "instant"): IDLE,
    ("GPUs", "Input wait", "instant"): IDLE,
    ("Cluster", "Network", "instant"): SPEED,
    ("Cluster", "Nodes", "Of the link"): SPEED,
    ("Network", "Utilisation", "instant"): SPEED,
    ("Network", "Slowest link", "instant"): SPEED,
    ("Network", "Of the link", "range"): SPEED,
    ("Network", "Training interfaces", "Link"): SPEED,
    ("Network", "Training interfaces", "Of the link"): SPEED,
    ("Training run", "Efficiency", "instant"): BASELINE,
    ("Compare runs", "Runs", "Efficiency"): BASELINE,
    ("Compare runs", "Runs", "Test top-1"): EVALUATION,
    ("Compare runs", "Best top-1", "{{run}}"): EVALUATION,
    ("Training run", "Set-up", "checkpoint"): CHECKPOINT,
    ("Training run", "annotation Checkpoints", "range"): CHECKPOINT,
}


@dataclass(frozen=True)
class Query:
    """One query of a panel, an annotation or a variable, ready for Prometheus.

    `kind` is "instant", at the end of the range, or "range". `name` is its legend, or its column's header.
    `may_be_empty` is the meaning of an empty result; it is "" if the result must not be empty.
    """

    dashboard: str
    panel: str
    name: str
    expression: str
    kind: Kind

    @property
    def needs_gpu(self) -> bool:
        """Return whether only nodes with GPUs have its data."""
        return GPU_METRICS in self.expression

    @property
    def may_be_empty(self) -> str:
        """Return the meaning of an empty result, see the class."""
        state_dir = (self.dashboard, self.panel)
        return MAY_BE_EMPTY.get((*state_dir, self.kind)) or MAY_BE_EMPTY.get((*state_dir, self.name), "")


def boards(folder: Path = FOLDER) -> list[Board]:
    """Read all dashboards from their JSON, ordered by file name."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def queries(values: Mapping[str, str | Iterable[str]], folder: Path = FOLDER) -> Iterator[Query]:
    """Yield all queries, with `values` for the variables, and for macros that differ from MACROS (names without $).

    Raises:
        ValueError: A variable has no value.
    """
    filled = MACROS | dict(values)
    for board in boards(folder):
        for panel, name, expression, kind in (*_panels(board), *_annotations(board), *_variables(board)):
            yield Query(board["title"], panel, name, filled_in(expression, filled), kind)


def filled_in(expression: str, values: Mapping[str, str | Iterable[str]]) -> str:
    """Insert the values of an expression's variables; $1 and the like, of label_replace, stay."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name not in values:
            raise ValueError(f"${name} has no value in {expression}: give one")
        text = values[name]
        return text if isinstance(text, str) else f"({'|'.join(text)})"

    return re.sub(r"\$([A-Za-z_]\w*)", value, expression)


Found = tuple[str, str, str, Kind]


def _panels(board: Board) -> Iterator[Found]:
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            kind: Kind = "instant" if target.get("instant") else "range"
            yield panel["title"], target["legendFormat"], target["expr"], kind


def _annotations(board: Board) -> Iterator[Found]:
    for annotation in board["annotations"].get("list", []):
        yield f"annotation {annotation['name']}", annotation["name"], annotation["expr"], "range"


def _variables(board: Board) -> Iterator[Found]:
    for variable in board["templating"]["list"]:
        form, _, argument = variable["query"].removesuffix(")").partition("(")
        name, expression = variable["name"], argument
        if form == "label_values":
            series, name = argument.rsplit(", ", 1)
            expression = f"group by ({name}) (last_over_time({series}[$__range]))"
        yield f"variable {variable['name']}", name, expression, "instant"
