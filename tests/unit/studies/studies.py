"""Studies, cells and launches for tests."""

from typing import Any

from orchestrator.schema.studies import Cell, Launch
from orchestrator.studies import matrix
from orchestrator.studies.journal import Started
from orchestrator.studies.launch_schedule import Planned, Schedule
from orchestrator.studies.study_definition import Study


def study(**changes: Any) -> Study:
    values: dict[str, Any] = {"name": "tiny", "models": "lenet", "datasets": "mnist", "ranks": [1, 2]}
    return Study.model_validate({**values, **changes})


def cells(of: Study) -> list[Cell]:
    return matrix.cells(of, slots=1)


def launch(planned: Planned, images: float | None = 100.0, **changes: Any) -> Launch:
    """Return a launch; without ``images``, it failed."""
    cell = planned.contestant.cell
    values: dict[str, Any] = {
        "cell": cell,
        "key": cell.key,
        "round": planned.round,
        "again": planned.contestant.again,
        "run": f"lenet-mnist-{planned.round}",
        "started": 1.0,
        "seconds": 10.0,
        "step_seconds": images and 32 / images,
        "images_per_second": images,
        "problem": None if images else "rank 0 raised an error",
    }
    return Launch(**{**values, **changes})


def started(planned: Planned, run: str = "lenet-mnist-0") -> Started:
    """Return the record that is written before a run starts."""
    contestant, command = planned.contestant, ["orchestrator", "train"]
    return Started(
        cell=contestant.cell,
        round=planned.round,
        again=contestant.again,
        run=run,
        started=1.0,
        busy=0.0,
        command=command,
    )


def finish(schedule: Schedule, launches: list[Launch], images: Any = None) -> list[Planned]:
    """Launch until the schedule ends; ``images`` gives the speed of a launch. Return the planned launches."""
    order = []
    while planned := schedule.next():
        order.append(planned)
        launches.append(launch(planned, images(planned) if images else 100.0))
        assert len(order) < 1000
    return order
