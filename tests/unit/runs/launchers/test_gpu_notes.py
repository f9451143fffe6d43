"""Notes on processes of a script that may use the same GPU."""

from typing import Any

import pytest

from orchestrator.runs import launchers
from orchestrator.runs.launchers import gpu_notes
from tests import builders

ALL_GPUS = "each of the 4 processes sees all GPUs of its node"
CROWDED = "4 ranks of demo-head share 2 GPUs, which NCCL refuses: deploy without slots, or with fewer"


@pytest.mark.parametrize(
    ("launcher", "gpus", "slots", "changes", "notes"),
    [
        ("plain", 2, 2, {}, [ALL_GPUS]),
        ("plain", 4, 1, {}, []),
        ("plain", 2, 2, {"np": 1}, []),
        ("plain", 0, 2, {}, []),
        ("torchrun", 2, 2, {}, []),
        ("horovod", 2, 4, {}, [CROWDED]),
        ("torchrun", 2, 4, {}, [CROWDED]),
        ("tensorflow", 2, 2, {"parameter_servers": 2}, []),
        ("tensorflow", 2, 4, {"parameter_servers": 2}, [CROWDED]),
        ("ray", 2, 4, {}, []),
    ],
)
def test_processes_that_may_share_a_gpu_are_noted(
    launcher: str, gpus: int, slots: int, changes: dict[str, Any], notes: list[str]
) -> None:
    cluster = builders.cluster(nodes=2, slots=slots, gpus=gpus)
    run = builders.run(**{"launcher": launcher, "np": 2 * slots, **changes})
    lines = list(gpu_notes.notes(cluster, run, launchers.layout(cluster, run)))
    assert len(lines) == len(notes)
    assert all(line.startswith(note) for line, note in zip(lines, notes, strict=True))
