"""Profile a training step by operation: ``python -m bench.train_profile RUN_DIRECTORY``.

Run by ``bench.profile`` in a container, like the trainer. TensorFlow's profiler records the steps of the run's second
epoch. Prints as JSON the seconds per step and, by kind of operation, its milliseconds and its number per step; an
operation that runs others counts only its own time. Here one thread runs all operations, where a run has two, so they
add up to the step except for time outside TensorFlow.
"""

import collections
import json
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from orchestrator.trainer import rank_setup, train
from orchestrator.trainer.telemetry.recorder import Recorder

EPOCH = 2
HOST = "/host:CPU"
FOUND: dict[str, Any] = {}


def watch_second_epoch() -> None:
    original = Recorder.epoch

    def epoch(self: Recorder, number: int, batches: Iterable[Any]) -> Iterator[Any]:
        if number != EPOCH:
            yield from original(self, number, batches)
            return
        with tempfile.TemporaryDirectory() as directory:
            tf.profiler.experimental.start(directory)
            started, steps = time.perf_counter(), 0
            for batch in original(self, number, batches):
                yield batch
                steps += len(batch.result()[1]) // self.plan.batch
            seconds = (time.perf_counter() - started) / steps
            tf.profiler.experimental.stop()
            FOUND.update(seconds=seconds, steps=steps, operations=operations(Path(directory), steps))

    Recorder.epoch = epoch  # type: ignore[method-assign]


def operations(directory: Path, steps: int) -> dict[str, tuple[float, float]]:
    """Return milliseconds and number per step, by kind of operation."""
    (path,) = directory.rglob("*.xplane.pb")
    space = xplane_pb2.XSpace.FromString(path.read_bytes())
    spent, count = collections.Counter[str](), collections.Counter[str]()
    for plane in (plane for plane in space.planes if plane.name == HOST):
        names = {number: kind(metadata.name) for number, metadata in plane.event_metadata.items()}
        for line in plane.lines:
            for name, own in own_times([e for e in line.events if names[e.metadata_id]], names):
                spent[name] += own
                count[name] += 1
    return {name: (spent[name] / 1e9 / steps, count[name] / steps) for name in spent}


def kind(name: str) -> str:
    """Return the kind of an event's operation, "" if it is none. The profiler names them NAME:KIND."""
    before, colon, after = name.rpartition(":")
    return after if colon and after.isidentifier() and not before.endswith(":") else ""


def own_times(events: list[Any], names: dict[int, str]) -> Iterator[tuple[str, int]]:
    """Yield kind and picoseconds of each event of a thread, without the events within it."""
    open_events: list[list[Any]] = []  # end, kind, own time
    for event in sorted(events, key=lambda e: (e.offset_ps, -e.duration_ps)):
        while open_events and open_events[-1][0] <= event.offset_ps:
            _, name, own = open_events.pop()
            yield name, own
        if open_events:
            open_events[-1][2] -= event.duration_ps
        open_events.append([event.offset_ps + event.duration_ps, names[event.metadata_id], event.duration_ps])
    yield from ((name, own) for _, name, own in open_events)


if __name__ == "__main__":
    rank_setup.OPERATIONS_AT_ONCE = 1
    watch_second_epoch()
    train.main(Path(sys.argv[1]))
    print("\n" + json.dumps(FOUND))
