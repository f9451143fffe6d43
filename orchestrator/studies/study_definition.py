"""Model of a study file: what is compared, how often, and what was published."""

import math
from collections.abc import Mapping, Sized
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator, model_validator

from orchestrator.config import Launch, Train, nearest
from orchestrator.config.section import Section
from orchestrator.schema.bounded_files import shown
from orchestrator.schema.names import FileName
from orchestrator.schema.studies import Cell, Option, Published
from orchestrator.studies.study_sections import (
    FEWEST,
    Counts,
    Launches,
    Nodes,
    Ranks,
    Repetitions,
    Shrink,
    Until,
    Values,
    Words,
)

MOST_CELLS = 1000
AXES = ("engine", "model", "dataset", "batch", "nodes", "ranks")
# Keys of the sections train and launch that are no options: the study's own key for them, "" if `train` has none.
ELSEWHERE = {
    "model": "models", "dataset": "datasets", "data": "data", "batch_size": "batch", "engine": "engines", "np": "ranks",
    "epochs": "until.epochs", "steps": "until.steps", "max_time": "until.time", "until": "until",
    **dict.fromkeys(("launcher", "parameter_servers", "fp16_allreduce", "save_model"), ""),
}  # fmt: skip
OPTIONS = [key for section in (Train, Launch) for key in section.model_fields if key not in ELSEWHERE]
TRAIN_OPTIONS = [key for key in OPTIONS if key in Train.model_fields]


class Study(Section):
    """A study: the content of its file. ``shrunk`` tells whether it runs with ``shrink``."""

    name: FileName = Field(description="name of the study, and of its directory: NAME-study")
    description: str = Field("", description="what it compares, in a sentence or two")
    engines: Words = Field(["ours"], description="programs that train")
    models: Words = Field(description="networks: of `orchestrator models`")
    datasets: Words = Field(description="data sets: of `orchestrator datasets`")
    batch: Counts | None = Field(None, description="images per rank and backward pass; default: the recipe's")
    ranks: Ranks | None = Field(None, description="numbers of ranks; this or nodes")
    nodes: Nodes | None = Field(None, description="numbers of nodes, all of their slots; the cluster grows and shrinks")
    options: dict[str, Values] = Field(
        {}, description="further keys of the sections train and launch, and their values"
    )
    exclude: list[dict[str, Option]] = Field([], description="parts of cells: every cell that has one is left out")
    base: dict[str, Option] = Field(
        {},
        description="what the base case of each cell has; default: the smallest number of ranks or nodes, the first "
        "engine if there is only one number",
    )
    repetitions: Launches = Field(
        Repetitions(at_least=FEWEST, at_most=FEWEST), description="launches of each cell: a number, or limits"
    )
    until: Until = Field(Until(), description="when a launch ends; default: at the end of the recipe's epochs")
    data: dict[str, Path] = Field(
        {}, description="directories of data sets; default: downloaded where that is possible"
    )
    busy_above: float = Field(0.1, ge=0, le=1, description="share of CPU that others may use just before a launch")
    busy_repeats: int = Field(1, ge=0, le=10, description="how often a launch on a busier machine is repeated")
    samples: int | None = Field(
        None, ge=1, description="training samples that a published time is for; default: those of the data set"
    )
    published: list[Published] = Field([], description="numbers that a paper printed, and where")
    shrink: Shrink = Field(Shrink(), description="what `--shrink` changes")
    shrunk: bool = Field(False, description="run with `shrink`; the same as --shrink")

    @field_validator("published", mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, rows: Any) -> Any:
        """Refuse unknown keys: the model itself ignores them, for files of newer versions."""
        for row in rows if isinstance(rows, list) else []:
            for key in row if isinstance(row, Mapping) else []:
                if key not in Published.model_fields:
                    raise ValueError(f"{shown(key)}: unknown key{nearest(str(key), list(Published.model_fields))}")
        return rows

    @model_validator(mode="after")
    def _consistent(self) -> "Study":
        problems = [*self._wrong_options(), *self._wrong_parts()]
        if (self.ranks is None) == (self.nodes is None):
            problems.append("ranks, nodes: " + ("both are given" if self.ranks else "neither is given") + ", give one")
        problems += [f"shrink.{axis}: the study has no {axis}" for axis in ("ranks", "nodes")
                     if getattr(self.shrink, axis) and not getattr(self, axis)]  # fmt: skip
        problems += [f"shrink.{key}: the study compares values of it under options: leave one out"
                     for key in ("image_size", "test_samples")
                     if getattr(self.shrink, key) and key in self.options]  # fmt: skip
        if self.size > MOST_CELLS:
            problems.append(f"the matrix has {self.size:,} cells, at most {MOST_CELLS:,} are possible")
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def _wrong_options(self) -> list[str]:
        return [f"options.{key}: {_no_option(key)}" for key in self.options if key not in OPTIONS]

    def _wrong_parts(self) -> list[str]:
        """Return the keys in parts of cells that no cell has, and values in those that have to match one."""
        parts = [("exclude", part) for part in self.exclude] + [("base", self.base)]
        every = parts + [("published", row.cell) for row in self.published]
        valid = [*AXES, *self.options]
        return [
            *(f"{name}: {shown(key)}: no key of a cell{nearest(key, valid)}" for name, part in every for key in part
              if key not in valid),
            *(f"{name}: {key}: {shown(value)}: no cell has it, {self._expected(key)}"
              for name, part in parts for key, value in part.items() if key in valid and not self._has(key, value)),
            *self.wrong_data(),
        ]  # fmt: skip

    def wrong_data(self) -> list[str]:
        """Return the items of ``data`` that no cell uses."""
        wrong = [name for name in self.data if not self._has("dataset", name)]
        return [f"data: {shown(name)}: no cell has this data set, {self._expected('dataset')}" for name in wrong]

    def _has(self, key: str, value: Option) -> bool:
        """Tell whether a cell can have this value; the ranks of nodes follow from their slots."""
        return value in self._values(key) or (key == "ranks" and self.nodes is not None)

    def _expected(self, key: str) -> str:
        values = self._values(key)
        return f"expected one of {shown(values)}" if values else f"the study has no {key}"

    def _values(self, key: str) -> list[Option]:
        """Return the values that cells have for a key, whether the study is shrunk or not."""
        if key in self.options:
            return self.options[key]
        if key == "dataset":
            return list(dict.fromkeys([*self.datasets, *self.shrink.datasets, *self.shrink.datasets.values()]))
        named = f"{key}s" if key in ("engine", "model") else key
        return list(dict.fromkeys([*(getattr(self, named) or []), *(getattr(self.shrink, named, None) or [])]))

    @property
    def size(self) -> int:
        """Return the number of cells before exclusion."""
        axes: list[Sized] = [
            self.engines,
            self.models,
            self.datasets,
            self.batch or [0],
            self.ranks or self.nodes or [0],
        ]
        return math.prod(len(axis) for axis in [*axes, *self.options.values()])

    def measured(self) -> "Study":
        """Return the study as it is measured: with ``shrink`` applied if it is shrunk."""
        return _shrunk(self) if self.shrunk else self


def _no_option(key: str) -> str:
    """Return why a key is no option, and which key is meant."""
    if key not in ELSEWHERE:
        return f"unknown{nearest(key, OPTIONS)}"
    own = ELSEWHERE[key]
    return f"no option, use the study's key {own}" if own else "no option: studies do not support it, leave it out"


def _shrunk(study: Study) -> Study:
    shrink = study.shrink
    keys = ("until", "repetitions", "batch", "ranks", "nodes")
    changes: dict[str, Any] = {key: getattr(shrink, key) for key in keys if getattr(shrink, key) is not None}
    standing = [shrink.datasets.get(name, name) for name in study.datasets]
    # A data set that stands for several is excluded only by its own name.
    sole = {name: other for name, other in zip(study.datasets, standing, strict=True) if standing.count(other) == 1}
    return study.model_copy(
        update={
            **changes,
            "datasets": list(dict.fromkeys(standing)),
            "exclude": [*study.exclude, *(replaced(part, sole) for part in study.exclude)],
            "base": replaced(study.base, shrink.datasets),
        }
    )


def replaced(part: Mapping[str, Any], datasets: Mapping[str, str]) -> dict[str, Any]:
    """Return a part of a cell with the data set that stands for its own, if ``datasets`` names one."""
    return {key: datasets.get(str(value), value) if key == "dataset" else value for key, value in part.items()}


def agrees(cell: Cell, part: Mapping[str, Option]) -> bool:
    """Tell whether ``cell`` has every value of ``part``, whose keys are fields of a cell or options."""
    cell_values = values(cell)
    return all(key in cell_values and cell_values[key] == value for key, value in part.items())


def values(cell: Cell) -> dict[str, Any]:
    """Return the fields and the options of a cell in one dictionary."""
    return cell.options | {axis: getattr(cell, axis) for axis in AXES}
