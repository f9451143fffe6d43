"""Inputs of engines: the samples and learning rates of `train`, and files of weights."""

import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from orchestrator.trainer.data.sample_order import epoch_order
from orchestrator.trainer.engines import step_inputs, weight_files
from tests import samples

ROWS = 70


@pytest.fixture
def data(tmp_path: Path) -> str:
    return str(samples.mnist(tmp_path / "data", {"train": ROWS, "t10k": 9}))


def ranks(data: str, world: int, **changes: object) -> list[step_inputs.Course]:
    config = samples.train_config(data=data, **{"batch_size": 16, **changes})
    return [step_inputs.load(config, rank, world) for rank in range(world)]


@pytest.mark.parametrize("epoch", [1, 2])
def test_ranks_train_on_their_parts_in_the_order_of_train(data: str, epoch: int) -> None:
    order = epoch_order(ROWS, seed=1, epoch=epoch)
    for course in ranks(data, 2):
        assert course.batches(epoch).tolist() == order[course.rank :: 2][:32].reshape(2, 16).tolist()


def test_ranks_evaluate_every_sample_once(data: str) -> None:
    evaluated = [
        number for course in ranks(data, 2, batch_size=4) for batch in course.test_batches() for number in batch
    ]
    assert sorted(evaluated) == list(range(9))
    assert [len(batch) for batch in ranks(data, 2, batch_size=4)[0].test_batches()] == [4, 1]


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize(("limit", "evaluated"), [(None, 9), (1, 1), (5, 5), (9, 9), (64, 9)])
def test_ranks_evaluate_the_first_samples_of_the_test_split(
    data: str, world: int, limit: int | None, evaluated: int
) -> None:
    courses = ranks(data, world, batch_size=4, test_samples=limit)
    whole = ranks(data, 1)[0].test
    evaluated_numbers = [number for course in courses for batch in course.test_batches() for number in batch]
    assert sorted(evaluated_numbers) == list(range(evaluated))
    for course in courses:
        assert all(np.array_equal(part, all_[:evaluated]) for part, all_ in zip(course.test, whole, strict=True))
        assert len(course.train[1]) == ROWS


def test_steps_end_a_course_within_an_epoch(data: str) -> None:
    course = ranks(data, 2, steps=3)[0]
    assert course.total_steps == 3
    assert list(course.epochs) == [1, 2]
    assert [len(course.batches(epoch)) for epoch in course.epochs] == [2, 1]


def test_learning_rate_grows_with_ranks_unless_the_engine_scales(data: str) -> None:
    course = ranks(data, 2)[0]
    assert (course.peak, course.rate(0)) == (0.2, 0.2)
    assert step_inputs.load(course.config, 0, 2, scale=1).peak == 0.1


def test_batch_is_at_most_the_part_of_a_rank(data: str) -> None:
    assert ranks(data, 3, batch_size=64)[0].batch == ROWS // 3


def test_more_ranks_than_images_end_the_program(data: str) -> None:
    with pytest.raises(SystemExit, match="70 training images for 71 ranks: use --np 70 or fewer"):
        step_inputs.load(samples.train_config(data=data), 0, 71)


def test_missing_data_ends_the_program(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"rank 1: .*t10k-.*missing"):
        step_inputs.load(samples.train_config(data=str(tmp_path)), 1, 2)


def test_weights_are_written_whole_and_read_by_every_rank(tmp_path: Path) -> None:
    written = {"convolution/0/kernel": np.ones((3, 3, 1, 6), np.float32), "dense/0/bias": np.zeros(2, np.float32)}
    weight_files.write(tmp_path / weight_files.INITIAL, written)
    for rank in (0, 1):
        read = weight_files.initial(tmp_path, rank)
        assert {name: values.tolist() for name, values in read.items()} == {
            name: values.tolist() for name, values in written.items()
        }
    assert [path.name for path in tmp_path.iterdir()] == [weight_files.INITIAL]


def test_digest_depends_on_every_number_and_not_on_order() -> None:
    first, second = np.zeros(2, np.float32), np.ones(3, np.float32)
    assert weight_files.digest({"a": first, "b": second}) == weight_files.digest({"b": second, "a": first})
    assert weight_files.digest({"a": first, "b": second}) != weight_files.digest({"a": first, "b": second + 1})


def test_missing_weights_end_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weight_files, "LIMIT_SECONDS", 0.1)
    with pytest.raises(SystemExit, match="rank 1: rank 0 wrote no"):
        weight_files.initial(tmp_path, 1)


def test_initial_weights_are_drawn_without_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\necho "$CUDA_VISIBLE_DEVICES $KEPT" > {tmp_path}/seen\n: > "$3/initial.npz"\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(np, "load", lambda path: nullcontext({}))
    monkeypatch.setenv("KEPT", "too")
    assert weight_files.initial(tmp_path, 0) == {}
    assert (tmp_path / "seen").read_text() == "-1 too\n"
