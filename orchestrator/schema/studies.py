"""Files of a study: what is compared, and what each launch measured.

A study has a directory:

===================  =====================================================================
``study.yaml``       the study as it was started: :class:`Study`
``launches.jsonl``   one :class:`Launch` per line, in the order in which launches ended
``runs/RUN/``        the files of each launch as fetched: ``results.json``, ``log``, …
===================  =====================================================================

A cell is one point of the matrix. A round measures each cell once; every other round is in reverse order.
"""

import hashlib
import json
import math
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator

from orchestrator.schema.file_model import File, Time
from orchestrator.schema.names import FileName


def finite(value: Any) -> Any:
    """Refuse a number that is not finite, in one problem: ``allow_inf_nan`` reports every type of a union."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value}: must be a finite number")
    return value


Option = Annotated[str | int | float | bool, BeforeValidator(finite)]
# Of one launch: a year at most, so that the time of all launches of a study is one that Python can represent.
LONGEST = 3e7
Seconds = Annotated[float, Field(ge=0, le=LONGEST, allow_inf_nan=False)]
Speed = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Metric = Literal["images_per_second", "seconds", "top1", "efficiency", "speed_up"]


class Cell(File):
    """Point of a study's matrix. ``options`` are keys of cluster.yaml's section train, and their values.

    A cell of one node has 0 ``ranks`` on a cluster whose head runs none; it is refused before it is launched.
    """

    engine: str = "ours"
    model: str
    dataset: str
    batch: int | None = None
    nodes: int | None = None
    ranks: int = Field(ge=0)
    options: dict[str, Option] = Field({})

    @property
    def key(self) -> str:
        """Return a short name of the cell that is the same in every process."""
        text = json.dumps(self.model_dump(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


class Published(File):
    """Number that a paper printed: for all cells that agree with ``cell``, on the hardware named ``column``.

    ``source`` says where it stands: table, figure or page. ``text`` is the number as printed, if it is ambiguous.
    """

    cell: dict[str, Option]
    metric: Metric
    value: float = Field(ge=0, allow_inf_nan=False)
    source: str
    column: str = ""
    text: str = ""


class Launch(File):
    """One launch of a cell: the unit of measurement.

    Attributes:
        cell: The cell.
        key: Key of the cell.
        round: Number of the round, from 0.
        again: Whether this is the second cell of the A/A pair: the same as ``cell``, measured as if it were another.
        run: Name of the run, a directory in ``runs/``; None if it did not start.
        started: Unix time.
        seconds: Wall time from the command to the end of the run.
        step_seconds: Median seconds of a step after the first.
        images_per_second: Effective batch size / ``step_seconds``.
        busy: Share of the machine's CPU time (0 to 1) that other programs used just before the launch.
        command: Command with which a user repeats the launch.
        problem: Why the launch gave no measurement; None if it did.
    """

    cell: Cell
    key: str
    round: int
    again: bool = False
    run: FileName | None = None
    started: Time
    seconds: Seconds
    step_seconds: Seconds | None = None
    images_per_second: Speed | None = None
    busy: float = 0.0
    command: list[str] = Field([])
    problem: str | None = None

    @field_validator("cell")
    @classmethod
    def _has_ranks(cls, cell: Cell) -> Cell:
        if cell.ranks < 1:
            raise ValueError("a launch has at least one rank")
        return cell
