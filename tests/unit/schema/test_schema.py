"""Files that both sides read and write."""

import os
import stat
import time
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from orchestrator.schema import CheckpointEntry, RunStatus, Staged, Unfinished
from orchestrator.schema.file_model import File
from orchestrator.trainer.supervision import rank_record
from tests import builders, samples


def test_file_is_replaced_whole_and_readable_for_all(tmp_path: Path) -> None:
    path = tmp_path / "0.json"
    builders.rank(0, exit_code=None).write(path)
    with path.open() as reader:
        ended = builders.rank(0, exit_code=7, ended=time.time())
        ended.write(path)
        assert '"exit_code": null' in reader.read()
    assert rank_record.read(path) == ended
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert list(tmp_path.iterdir()) == [path]


def test_file_is_flushed_before_it_gets_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed, path, fsync = [], tmp_path / "0.json", os.fsync

    def flush(descriptor: int) -> None:
        flushed.append((path.exists(), Path(f"/proc/self/fd/{descriptor}").read_text()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", flush)
    RunStatus(state="finished", exit_code=0, started=1.0, ended=2.0).write(path)
    assert flushed == [(False, path.read_text())]


def test_resolved_configuration_is_read_back_unchanged(tmp_path: Path) -> None:
    config = samples.train_config(max_time=90.0, milestones=[0.5, 0.75])
    config.write(tmp_path / "config.json")
    assert type(config).model_validate_json((tmp_path / "config.json").read_text()) == config


def test_keys_of_a_newer_version_are_ignored() -> None:
    text = '{"state": "finished", "exit_code": 0, "started": 1, "ended": 2, "mood": "good"}'
    assert RunStatus.model_validate_json(text).state == "finished"


@pytest.mark.parametrize("text", ["{}", '{"state": "asleep", "exit_code": 0, "started": 1, "ended": 2}'])
def test_missing_key_or_unknown_word_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        RunStatus.model_validate_json(text)


CHECKPOINT = CheckpointEntry(name="epoch-0001", epoch=1, step=4, world=2, whole=True)
STAGED = Staged(directories=["a"], hosts=["h"], shards=1, bytes=1, read=[1], copied=[1], seconds=1.0)
UNFINISHED = Unfinished(steps=1, input_seconds=[0.0], compute_seconds=[1.0], communication_seconds=[0.0])


@pytest.mark.parametrize(
    ("whole", "wrong"),
    [
        (samples.train_config(), {"backward_passes_per_step": 0}),
        *((builders.epoch(1), {key: seconds}) for key in ("seconds", "test_seconds", "median_step_seconds")
          for seconds in (-1.0, 1e308)),
        *((builders.epoch(1), {f"{part}_seconds": [1.0, -1.0]}) for part in ("input", "compute", "communication")),
        (UNFINISHED, {"compute_seconds": [-1.0]}),
        (UNFINISHED, {"steps": -1}),
        (CHECKPOINT, {"epoch": 0}),
        (CHECKPOINT, {"step": -1}),
        (CHECKPOINT, {"world": 0}),
        *((builders.node_report(), {"runs": [run]}) for run in ("x; touch a", "$(touch a)", "`a`", "--all", "a/b", "")),
        *((STAGED, {key: value}) for key, value in {"hosts": ["h", "i"], "read": [1, 2], "copied": []}.items()),
    ],
)  # fmt: skip
def test_impossible_value_of_a_node_is_refused(whole: File, wrong: dict[str, Any]) -> None:
    values = whole.model_dump()
    assert type(whole).model_validate(values) == whole
    with pytest.raises(ValidationError):
        type(whole).model_validate({**values, **wrong})
