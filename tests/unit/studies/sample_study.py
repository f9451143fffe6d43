"""Generated data of a study: cells with noise, epochs that learn, and a study directory.

python -m tests.unit.studies.sample_study DIRECTORY
"""

import json
import math
import random
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from orchestrator.schema import Epoch, Results, Scores, World
from orchestrator.schema.studies import Cell, Launch, Published
from tests.samples import train_config

STARTED = 1_795_000_000.0
SPEEDS = {"ours": 1.0, "horovod-tensorflow": 0.43, "ray-torch": 0.78, "torch-ddp": 0.81}  # of one rank
OVERHEAD = {"ours": 0.03, "horovod-tensorflow": 0.09, "ray-torch": 0.06, "torch-ddp": 0.05}  # per doubling of ranks
IMAGES = {"resnet20": 410.0, "mobilenet_v2": 155.0}
EPOCHS, IMAGES_PER_EPOCH = 8, 50_000
NAME, DATASET, BATCH = "sample", "cifar10", 64
DESCRIPTION = "Made-up numbers for tests of the report: four engines, two networks, one to eight ranks."


def cells(engines: Sequence[str], models: Sequence[str], ranks: Sequence[int]) -> list[Cell]:
    return [
        Cell(engine=engine, model=model, dataset=DATASET, batch=BATCH, ranks=count)
        for model in models
        for engine in engines
        for count in ranks
    ]


class Sample:
    """A study of generated numbers, the same for the same seed."""

    def __init__(
        self,
        engines: Sequence[str] = tuple(SPEEDS),
        models: Sequence[str] = tuple(IMAGES),
        ranks: Sequence[int] = (1, 2, 4, 8),
        rounds: int = 7,
        seed: int = 1,
    ) -> None:
        self.cells, self.rounds = cells(engines, models, ranks), rounds
        self.source = random.Random(seed)  # noqa: S311
        self.drift = [math.exp(self.source.gauss(0.0, 0.02)) for _ in range(rounds)]  # of the machine, for all cells
        self.launches: list[Launch] = []
        self.results: list[Results] = []
        for number in range(rounds):
            self._measure(number)

    def write(self, directory: Path, **study: Any) -> Path:
        """Write a study directory; ``study`` are further keys of study.yaml."""
        (directory / "runs").mkdir(parents=True)
        axes = {"engines": list(dict.fromkeys(cell.engine for cell in self.cells)), "datasets": [DATASET]}
        about = {"name": NAME, "description": DESCRIPTION, "base": {"engine": "horovod-tensorflow"}, **axes, **study}
        (directory / "study.yaml").write_text(json.dumps(about))  # JSON is YAML
        (directory / "launches.jsonl").write_text("".join(f"{launch.model_dump_json()}\n" for launch in self.launches))
        for results in self.results:
            run = directory / "runs" / results.run
            run.mkdir()
            results.write(run / "results.json")
        return directory

    def _measure(self, number: int) -> None:
        order = self.cells if number % 2 == 0 else self.cells[::-1]
        for cell in order:
            self._launch(cell, number)
            if cell == self.cells[:2][-1]:
                self._launch(cell, number, again=True)

    def _launch(self, cell: Cell, number: int, again: bool = False) -> None:
        doublings = math.log2(cell.ranks)
        share = 1 / (1 + OVERHEAD.get(cell.engine, 0.08) * doublings)
        noise = math.exp(self.source.gauss(0.0, 0.012)) * self.drift[number]
        speed = IMAGES.get(cell.model, 100.0) * SPEEDS.get(cell.engine, 0.6) * cell.ranks * share * noise
        step = BATCH * cell.ranks / speed
        run = re.sub(r"[^\w-]|_", "-", f"{cell.model}-{cell.engine}-{cell.ranks}-{number}{'-again' * again}")
        self.results.append(self._results(cell, run, step, share))
        self.launches.append(
            Launch(
                cell=cell,
                key=cell.key,
                round=number,
                again=again,
                run=run,
                started=STARTED + 90.0 * len(self.launches),
                seconds=75.0,
                step_seconds=step,
                images_per_second=speed,
                busy=round(abs(self.source.gauss(0.0, 0.02)), 3),
                command=["orchestrator", "train", cell.model, "--dataset", cell.dataset, "--batch-size", str(BATCH),
                         "--engine", cell.engine, "--np", str(cell.ranks)],
            )
        )  # fmt: skip

    def _results(self, cell: Cell, run: str, step: float, share: float) -> Results:
        config = train_config(
            run=run, model=cell.model, dataset=cell.dataset, batch_size=BATCH, epochs=EPOCHS, threads=1
        )
        return Results(
            run=run,
            config=config,
            versions={"orchestrator": "1.0", "python": "3.11.2", "tensorflow": "2.21.0", "horovod": "0.28.1"},
            world=World(size=cell.ranks, hosts=[f"node-{number}" for number in range(cell.ranks)]),
            parameters=274_442,
            effective_batch_size=BATCH * cell.ranks,
            peak_learning_rate=0.1 * cell.ranks,
            epochs=list(self._epochs(cell, step, share)),
            ended="epochs",
        )

    def _epochs(self, cell: Cell, step: float, share: float) -> Iterator[Epoch]:
        steps = IMAGES_PER_EPOCH // (BATCH * cell.ranks)
        for number in range(1, EPOCHS + 1):
            top1 = 0.92 - 0.5 * math.exp(-number / 2.2) - 0.004 * cell.ranks + self.source.gauss(0.0, 0.004)
            ideal = step * share
            parts = {"input": 0.04 * ideal, "compute": 0.96 * ideal, "communication": step - ideal}
            yield Epoch(
                epoch=number,
                steps=steps * number,
                learning_rate=0.1,
                train=Scores(loss=1 - top1 + 0.1, top1=top1 + 0.02, top5=0.99, images=IMAGES_PER_EPOCH),
                test=Scores(loss=1 - top1 + 0.2, top1=top1, top5=0.98, images=10_000),
                images_per_second=BATCH * cell.ranks / step,
                images_per_second_per_rank=[BATCH / step] * cell.ranks,
                peak_memory_per_rank=[800 << 20] * cell.ranks,
                seconds=steps * step,
                test_seconds=steps * step * 0.06,
                weights_sha256="0" * 64,
                **{f"{part}_seconds": [value] * cell.ranks for part, value in parts.items()},
            )


def published() -> list[Published]:
    """Return numbers of an invented paper, one of which contradicts its own time."""
    speeds = {1: (390.0, 128.21), 2: (760.0, 65.79), 4: (1400.0, 30.71), 8: (2600.0, 19.23)}
    cell = {"engine": "horovod-tensorflow", "model": "resnet20", "dataset": DATASET}
    return [
        Published(cell={**cell, "ranks": ranks}, metric=metric, value=value, source="table 2", column="4 x T4")
        for ranks, (speed, seconds) in speeds.items()
        for metric, value in (("images_per_second", speed), ("seconds", seconds))
    ]


if __name__ == "__main__":
    numbers = [json.loads(number.model_dump_json()) for number in published()]
    Sample().write(
        Path(sys.argv[1]),
        published=numbers,
        shrink={"image_size": 32, "until": {"epochs": 8, "top1": 0.85}},
        shrunk=True,
        until={"top1": 0.92},
    )
