"""Compare published measurements with predictions: one set of constants for each kind of link, and none for a row."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from orchestrator.config import yaml_documents
from orchestrator.prediction import communication_overlap, link_kinds, ready_gradients, single_rank
from orchestrator.prediction.allreduce_time import Topology
from orchestrator.prediction.communication_overlap import Options
from orchestrator.prediction.gradient_groups import Engine

FILE = Path(__file__).with_name("published_rows.yaml")
NEAR = 0.10  # of efficiency
IMAGENET_CLASSES = 1000
FUSION = 64 << 20  # bytes: default of the versions of Horovod that were measured, which are older than ours


class Row(BaseModel):
    """A published number: efficiency (0 to 1), or images/s of all GPUs; ``slots`` if not those of the entry."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    gpus: int
    efficiency: float | None = None
    images: float | None = None
    slots: int | None = None


class Entry(BaseModel):
    """Measurements of one network on one kind of machine; ``why`` is the known reason of a miss.

    A constant of :mod:`orchestrator.prediction.link_kinds` comes from an entry that ``calibrates``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    source: str
    model: str
    image_size: int = 224
    batch: int
    single: float
    slots: int
    local: Literal["pcie", "nvlink", "nvswitch"]
    link: str
    engine: Engine = "horovod"
    why: str = "the model leaves out input, and what else ran on the machines"
    rows: list[Row]
    calibrates: bool = False


@dataclass(frozen=True)
class Tested:
    """A published and the predicted efficiency, both 0 to 1; ``why`` explains a miss, and is empty without one."""

    entry: Entry
    gpus: int
    published: float
    predicted: float
    why: str

    @property
    def error(self) -> float:
        """Return predicted minus published."""
        return self.predicted - self.published

    @property
    def calibrates(self) -> bool:
        """Tell whether a constant comes from this row, which is then no test."""
        return self.entry.calibrates

    @property
    def near(self) -> bool:
        """Tell whether the prediction is within NEAR of the published number."""
        return abs(self.error) <= NEAR


def published() -> list[Entry]:
    """Read the published measurements."""
    return [Entry.model_validate(entry) for entry in yaml_documents.read(FILE)]


def test() -> list[Tested]:
    """Predict every published row."""
    return [_tested(entry, row) for entry in published() for row in entry.rows]


def _tested(entry: Entry, row: Row) -> Tested:
    efficiency = row.efficiency if row.efficiency is not None else (row.images or 0.0) / row.gpus / entry.single
    predicted = _predicted(entry, row)
    return Tested(entry, row.gpus, efficiency, predicted, entry.why if abs(predicted - efficiency) > NEAR else "")


def _predicted(entry: Entry, row: Row) -> float:
    gradients = ready_gradients.estimate(entry.model, entry.image_size, IMAGENET_CLASSES)
    rank_step = single_rank.from_step(entry.batch, entry.batch / entry.single, gradients)
    slots = min(row.slots or entry.slots, row.gpus)
    link, local = link_kinds.parse(entry.link).between_gpus(), link_kinds.within_node(entry.local)
    predicted = communication_overlap.predict(
        rank_step, Topology(row.gpus // slots, slots, link, local), Options(engine=entry.engine, group=FUSION)
    )
    return rank_step.seconds / predicted.seconds
