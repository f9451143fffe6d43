"""Models of the sections of a study file: repetitions, ends of launches, the smaller form, and lists of values."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from orchestrator.config.section import MAX_NODES, MAX_SLOTS, Duration, Section
from orchestrator.schema.studies import LONGEST, Option

FEWEST = 6  # launches of a cell: the fewest that give an interval of 95 %
MOST_LAUNCHES = 1000  # of a cell


def listed(value: Any) -> Any:
    return value if value is None or isinstance(value, list) else [value]


Count = Annotated[int, Field(ge=1, strict=True)]
RankCount = Annotated[int, Field(ge=1, le=MAX_NODES * MAX_SLOTS, strict=True)]
NodeCount = Annotated[int, Field(ge=1, le=MAX_NODES, strict=True)]
# What a file may have, for the JSON schema: one value needs no list.
WordOrList = str | list[str]
CountOrList = Count | list[Count]
RanksOrList = RankCount | list[RankCount]
NodesOrList = NodeCount | list[NodeCount]
ValueOrList = Option | list[Option]
Words = Annotated[list[str], BeforeValidator(listed, json_schema_input_type=WordOrList), Field(min_length=1)]
Counts = Annotated[list[Count], BeforeValidator(listed, json_schema_input_type=CountOrList), Field(min_length=1)]
Ranks = Annotated[list[RankCount], BeforeValidator(listed, json_schema_input_type=RanksOrList), Field(min_length=1)]
Nodes = Annotated[list[NodeCount], BeforeValidator(listed, json_schema_input_type=NodesOrList),
                  Field(min_length=1, max_length=MAX_NODES)]  # fmt: skip
Values = Annotated[list[Option], BeforeValidator(listed, json_schema_input_type=ValueOrList), Field(min_length=1)]


class Repetitions(Section):
    """Number of launches of a cell: until its interval is narrow enough, within limits."""

    width: float | None = Field(
        None, gt=0, lt=10, description="wanted width of the 95 % interval of a ratio, as a share of it; default: any"
    )
    at_least: int = Field(
        FEWEST, ge=1, le=MOST_LAUNCHES, description="launches of each cell before its interval is looked at"
    )
    at_most: int = Field(30, ge=1, le=MOST_LAUNCHES, description="launches of each cell, however wide its interval is")

    @model_validator(mode="after")
    def _consistent(self) -> "Repetitions":
        if self.at_least > self.at_most:
            raise ValueError(f"at_least: {self.at_least} is more than at_most: {self.at_most}")
        if self.width and self.at_least < FEWEST:
            raise ValueError(f"at_least: {self.at_least}: an interval of 95 % needs {FEWEST} launches")
        return self


def read_repetitions(value: Any) -> Any:
    """Read a plain number as a fixed number of repetitions."""
    fixed = isinstance(value, int) and not isinstance(value, bool)
    return {"at_least": value, "at_most": value} if fixed else value


LaunchCount = Annotated[int, Field(ge=1, le=MOST_LAUNCHES)]
NumberOrLimits = LaunchCount | Repetitions
Launches = Annotated[Repetitions, BeforeValidator(read_repetitions, json_schema_input_type=NumberOrLimits)]
LaunchesOrNone = Annotated[
    Repetitions | None, BeforeValidator(read_repetitions, json_schema_input_type=NumberOrLimits | None)
]


class Until(Section):
    """When a launch ends: at whichever comes first."""

    epochs: int | None = Field(None, ge=1, description="passes over the training set; default: the recipe's")
    steps: int | None = Field(None, ge=1, description="training steps; default: at the end of the epochs")
    time: Annotated[Duration, WithJsonSchema({"type": ["number", "string", "null"]})] = Field(
        None, gt=0, le=LONGEST, description="time of the launch (90s, 15m, 2h); default: at the end of epochs"
    )
    top1: float | None = Field(None, gt=0, lt=1, description="share of right answers in the test; default: none")


class Shrink(Section):
    """Changes that `--shrink` makes, so that the study runs on a small machine."""

    image_size: int | None = Field(None, ge=8, le=1024, description="side of images, where the data set lets it vary")
    test_samples: int | None = Field(None, ge=1, description="test samples that are evaluated, the first of them")
    until: Until | None = Field(None, description="replaces `until`")
    repetitions: LaunchesOrNone = Field(None, description="replaces `repetitions`")
    ranks: Ranks | None = Field(None, description="replaces `ranks`")
    nodes: Nodes | None = Field(None, description="replaces `nodes`")
    batch: Counts | None = Field(None, description="replaces `batch`")
    datasets: dict[str, str] = Field({}, description="data sets to replace, and by which")
